/* What a program of one thread gives up, all of it has given up: whatever threads there are beside it follow. A user namespace
 * can be entered, which takes a process of one thread; and its connections go on. */
#include "api.h"
#include <dirent.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { PINGS = 150 };

static void exchange(int fd, int first)
{
    for (int i = 0; i < PINGS; i++) {
        if (first)
            tell(fd);
        await(fd);
        if (!first)
            tell(fd);
    }
}

/* Every thread of this process has this line in its status. */
static void all_have(const char *wanted)
{
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    int threads = 0;
    for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
        if (task->d_name[0] == '.')
            continue;
        char path[300], text[8192];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        int fd = open(path, O_RDONLY);
        CHECK(fd >= 0);
        ssize_t length = read(fd, text, sizeof text - 1);
        CHECK(length > 0 && close(fd) == 0);
        text[length] = 0;
        if (strstr(text, wanted) == NULL)
            fprintf(stderr, "thread %s: not \"%s\"\n", task->d_name, wanted);
        CHECK(strstr(text, wanted) != NULL);
        threads++;
    }
    CHECK(threads >= 1 && closedir(tasks) == 0);
}

static void no_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}, {0}};
    CHECK(syscall(SYS_capset, &header, none) == 0);
}

static void confine(int fd, int first)
{
    exchange(fd, first);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    all_have("NoNewPrivs:\t1\n");
    exchange(fd, first);
    CHECK(prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT, 0, 0, 0) == 0);
    no_capabilities();
    all_have("CapEff:\t0000000000000000\n");
    exchange(fd, first);
    CHECK(unshare(CLONE_NEWUSER) == 0);
    exchange(fd, first);
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    confine(fd, 0);
    await_end(fd);
}

void client(struct place place)
{
    int fd = tcp_connected(place.address, place.port);
    confine(fd, 1);
}
