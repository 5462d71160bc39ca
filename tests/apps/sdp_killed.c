/* A process that outlives its peers: `sdp_killed ROUNDS SEED PATIENCE_MS`. In each round a connection of this host to
 * another process, which is killed (SIGKILL) at a random moment: while it connects or is accepted, meets, sends,
 * receives, or waits.
 *
 * What the killed one sent must arrive, and then the end of the stream, or ECONNRESET where the kernel says so: it had
 * not read everything. At the end nothing may be left of the dead: descriptors, mapped memory, names of sockets. Prints
 * rounds, ends, resets, and in how many rounds a segment was mapped. Exit status 1: something was wrong, or nothing came
 * for PATIENCE_MS. */
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum { SENDS, READS, BOTH, NEITHER };
enum { BLOCKS, POLLS, EPOLLS, SPINS };
enum { PIECE = 20000 };

/* What the two processes and the thread that kills tell each other, beside the connection. */
static struct shared {
    _Atomic int port, dying;
    _Atomic long sent, moved;
} *shared;

static unsigned long number;
static unsigned chance(unsigned below)
{
    number = number * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)(number >> 33) % below;
}

static unsigned char byte_at(long at) { return (unsigned char)(at ^ at >> 8 ^ at >> 16); }

static int listener_at(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&address, &length) == 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int connected_to(int port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    CHECK(atomic_load(&shared->dying));
    close(fd);
    return -1;
}

/* ---- who is killed ---- */

static void victim(char **words)
{
    int page = atoi(words[0]), port = atoi(words[1]), way = atoi(words[2]), exchanges = atoi(words[3]), fd;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
    signal(SIGPIPE, SIG_IGN);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    CHECK(shared != MAP_FAILED);
    if (port == 0) {
        int own, listening = listener_at(&own);
        atomic_store(&shared->port, own);
        fd = accept(listening, NULL, NULL);
        close(listening);
    } else {
        fd = connected_to(port);
    }
    CHECK(fd >= 0);
    char c;
    for (int i = 0; i < exchanges; i++)
        if (read(fd, &c, 1) != 1 || write(fd, &c, 1) != 1)
            pause();
    static char piece[PIECE];
    for (long at = 0;;) {
        atomic_fetch_add(&shared->moved, 1);
        if (way == NEITHER)
            pause();
        if (way == READS || way == BOTH) {
            ssize_t count = recv(fd, piece, sizeof piece, way == BOTH ? MSG_DONTWAIT : 0);
            if (count == 0 || (count < 0 && errno != EAGAIN))
                pause();
        }
        if (way == SENDS || way == BOTH) {
            size_t length = 1 + (size_t)(at * 7919 % PIECE) % (at % 3 ? 100 : PIECE);
            for (size_t i = 0; i < length; i++)
                piece[i] = (char)byte_at(at + (long)i);
            ssize_t count = send(fd, piece, length, way == BOTH ? MSG_DONTWAIT : 0);
            if (count < 0 && errno != EAGAIN)
                pause();
            at += count > 0 ? count : 0;
            atomic_store(&shared->sent, at);
        }
    }
}

/* ---- who kills ---- */

static struct { pid_t pid; long moves; useconds_t later; } target;

/* When the other one has come so far, or something keeps it for good. */
static void *killer(void *unused)
{
    for (int i = 0; i < 200 && atomic_load(&shared->moved) < target.moves; i++)
        usleep(100);
    usleep(target.later);
    atomic_store(&shared->dying, 1);
    CHECK(kill(target.pid, SIGKILL) == 0);
    return unused;
}

/* ---- who lives ---- */

static int round_number, patience;
static unsigned long seed;

static void late(int unused)
{
    (void)unused;
    fprintf(stderr, "round %d of seed %lu hangs\n", round_number, seed);
    _exit(1);
}

static void wait_for(int fd, int set, int how, short events)
{
    if (how == POLLS) {
        struct pollfd polled = {.fd = fd, .events = events};
        CHECK(poll(&polled, 1, -1) == 1);
    } else if (how == EPOLLS) {
        struct epoll_event event = {.events = (uint32_t)events};
        CHECK(epoll_ctl(set, EPOLL_CTL_MOD, fd, &event) == 0 && epoll_wait(set, &event, 1, -1) == 1);
    }
}

/* Whether both have what they need to go on in memory, after these exchanges of one byte. */
static int exchange(int fd, int exchanges)
{
    char c = 'x';
    for (int i = 0; i < exchanges; i++)
        if (send(fd, &c, 1, MSG_NOSIGNAL) != 1 || recv(fd, &c, 1, 0) != 1) {
            CHECK(atomic_load(&shared->dying));
            return 0;
        }
    return 1;
}

/* Until the end of the stream: 0, or the error. `must_reset`: the other one had something unread when it was killed. */
static int live(int fd, int way, int how, int *must_reset)
{
    static char piece[PIECE];
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event none = {0};
    CHECK(set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, fd, &none) == 0);
    int sends = way != SENDS, flags = how == BLOCKS && way != BOTH ? 0 : MSG_DONTWAIT, result, told = 0;
    long got = 0;
    for (;;) {
        if (sends) {
            ssize_t count = send(fd, piece, 1 + chance(PIECE), MSG_NOSIGNAL | MSG_DONTWAIT);
            CHECK(count > 0 || errno == EAGAIN || errno == EPIPE || errno == ECONNRESET);
            /* An error is told once. */
            told |= count < 0 && errno != EAGAIN ? ECONNRESET : 0;
            if (count > 0 && way == NEITHER && !atomic_load(&shared->dying))
                *must_reset = 1;
            /* Once is enough for who does not read. */
            sends = way != NEITHER && (count > 0 || errno == EAGAIN);
        }
        ssize_t count = recv(fd, piece, 1 + chance(PIECE), sends ? MSG_DONTWAIT : flags);
        if (count < 0 && errno == EAGAIN) {
            wait_for(fd, set, how, sends ? POLLIN | POLLOUT : POLLIN);
            continue;
        }
        result = count < 0 ? errno : told;
        if (count <= 0)
            break;
        for (ssize_t i = 0; i < count; i++)
            CHECK((unsigned char)piece[i] == byte_at(got + i));
        got += count;
    }
    CHECK(atomic_load(&shared->dying));
    /* A reset may overtake what it did not fit in. */
    CHECK(result || got >= atomic_load(&shared->sent));
    close(set);
    return result;
}

static int count_of(const char *folder)
{
    DIR *open_folder = opendir(folder);
    CHECK(open_folder != NULL);
    int count = 0;
    while (readdir(open_folder))
        count++;
    closedir(open_folder);
    return count;
}

static int lines_with(const char *file, const char *text)
{
    FILE *open_file = fopen(file, "r");
    CHECK(open_file != NULL);
    char line[4096];
    int count = 0;
    while (fgets(line, sizeof line, open_file))
        count += strstr(line, text) != NULL;
    fclose(open_file);
    return count;
}

static pid_t start(int page, int port, int way, int exchanges)
{
    char words[4][16];
    int numbers[4] = {page, port, way, exchanges};
    for (int i = 0; i < 4; i++)
        snprintf(words[i], sizeof words[i], "%d", numbers[i]);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "sdp_killed", "victim", words[0], words[1], words[2], words[3], (char *)NULL);
        _exit(127);
    }
    return pid;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "victim") == 0)
        victim(argv + 2);
    CHECK(argc == 4);
    int rounds = atoi(argv[1]), port, ends = 0, resets = 0, mapped = 0, descriptors = 0;
    seed = number = strtoul(argv[2], NULL, 10);
    patience = atoi(argv[3]);
    signal(SIGALRM, late);
    int page = memfd_create("sdp_killed", 0);
    CHECK(page >= 0 && ftruncate(page, 4096) == 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, page, 0);
    CHECK(shared != MAP_FAILED);
    int listener = listener_at(&port);
    for (round_number = 0; round_number < rounds; round_number++) {
        if (round_number == rounds / 10)
            descriptors = count_of("/proc/self/fd");
        memset(shared, 0, sizeof *shared);
        int accepts = (int)chance(2), way = (int)chance(4), how = (int)chance(4), fd;
        /* Around the few after which the two meet, and behind. */
        int exchanges = (int)chance(chance(2) ? 8 : 30);
        alarm((unsigned)(patience / 1000));
        target.pid = start(page, accepts ? port : 0, way, exchanges);
        target.moves = chance(4) ? chance(100) : 0;
        target.later = chance(3) ? chance(300) : chance(10000);
        if (accepts) {
            /* Killed before it is accepted, it is accepted all the same; before it connects, nobody comes. */
            struct pollfd polled = {.fd = listener, .events = POLLIN};
            CHECK(poll(&polled, 1, -1) == 1);
            fd = accept(listener, NULL, NULL);
            CHECK(fd >= 0);
        } else {
            while (atomic_load(&shared->port) == 0)
                usleep(50);
            fd = connected_to(atomic_load(&shared->port));
        }
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, killer, NULL) == 0);
        if (fd >= 0) {
            int must_reset = 0, is_warm = exchange(fd, exchanges);
            mapped += lines_with("/proc/self/maps", "sidestep-connection") > 0;
            int result = is_warm ? live(fd, way, how, &must_reset) : 0;
            CHECK(result == 0 || result == ECONNRESET);
            CHECK(!is_warm || way != SENDS || result == 0);
            CHECK(!must_reset || result == ECONNRESET);
            *(result ? &resets : &ends) += 1;
            close(fd);
        }
        CHECK(pthread_join(thread, NULL) == 0);
        int status;
        CHECK(waitpid(target.pid, &status, 0) == target.pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    }
    alarm(0);
    CHECK(lines_with("/proc/self/maps", "sidestep-connection") == 0);
    CHECK(count_of("/proc/self/fd") == descriptors);
    CHECK(lines_with("/proc/self/net/unix", "@sidestep-memory") == 0);
    printf("%d %d %d %d\n", rounds, ends, resets, mapped);
    return 0;
}
