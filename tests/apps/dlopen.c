/* The library, named by the first argument, is opened and closed at run time; what it registered stays valid. */
#include "check.h"
#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>

static volatile int ran;

static void on_signal(int signal)
{
    ran++;
}

int main(int count, char **arguments)
{
    for (int round = 0; round < 3; round++) {
        void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library != NULL);
        int (*make)(int, int, int) = (int (*)(int, int, int))dlsym(library, "socket");
        int (*act)(int, const struct sigaction *, struct sigaction *) =
            (int (*)(int, const struct sigaction *, struct sigaction *))dlsym(library, "sigaction");
        int (*end)(int) = (int (*)(int))dlsym(library, "close");
        CHECK(make && act && end);
        int fd = make(AF_INET, SOCK_DGRAM, 0);
        CHECK(fd >= 0 && end(fd) == 0);
        struct sigaction action = {.sa_handler = on_signal};
        CHECK(act(SIGUSR1, &action, NULL) == 0);
        CHECK(dlclose(library) == 0);
        CHECK(raise(SIGUSR1) == 0 && ran == round + 1);
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        CHECK(waitpid(child, NULL, 0) == child);
    }
    return 0;
}
