/* Uses the sockets that early_library.c made in its constructor. */
#include "check.h"
#include <sys/wait.h>

extern int early_pair[2];

int main(void)
{
    CHECK(passes(early_pair[1], early_pair[0]));
    pid_t child = fork();
    if (child == 0)
        _exit(passes(early_pair[0], early_pair[1]) ? 0 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return 0;
}
