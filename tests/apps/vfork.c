/* A vfork child closes and duplicates descriptors in its parent's memory; the parent's sockets must not notice. */
#include "check.h"
#include <fcntl.h>
#include <sys/wait.h>

int main(void)
{
    int pair[2];
    tcp_pair(pair);
    for (int round = 0; round < 3; round++) {
        pid_t child = vfork();
        CHECK(child >= 0);
        if (child == 0) {
            int null = open("/dev/null", O_RDWR);
            if (dup2(null, pair[0]) != pair[0] || close(pair[1]) != 0 || dup3(null, 77, O_CLOEXEC) != 77)
                _exit(2);
            if (round == 1 && close_range(3, ~0U, 0) != 0)
                _exit(3);
            if (round == 2)
                execl("/bin/true", "true", NULL);
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(passes(pair[0], pair[1]) && passes(pair[1], pair[0]));
    }
    return 0;
}
