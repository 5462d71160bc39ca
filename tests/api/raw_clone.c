/* Children that no handler of fork hears of, by a bare clone and by _Fork, have their parent's sockets, and use them as the
   parent does. What they do leaves the parent's other connections alone. */
#include "api.h"
#include <sched.h>
#include <sys/syscall.h>

#define ROUNDS 500
#define CHILDREN 3
#define TALKS 20

static int conversation(void *connection)
{
    answers(*(int *)connection, TALKS);
    _exit(0);
}

static long child_of(int way, int *connection)
{
    static _Alignas(16) char stack[1 << 16];
    if (way == 2)
        return clone(conversation, stack + sizeof(stack), SIGCHLD, connection);
    long child = way == 0 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
    if (child == 0)
        conversation(connection);
    return child;
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), childs[CHILDREN];
    ready();
    int own = accept(listener, NULL, NULL);
    for (int i = 0; i < CHILDREN; i++)
        CHECK((childs[i] = accept(listener, NULL, NULL)) >= 0);
    CHECK(own >= 0);
    answers(own, ROUNDS);
    for (int i = 0; i < CHILDREN; i++) {
        answers(childs[i], TALKS);
        long child = child_of(i, &childs[i]);
        CHECK(child > 0);
        CHECK(close(childs[i]) == 0);
        answers(own, ROUNDS);
        int status;
        CHECK(waitpid((pid_t)child, &status, 0) == child && status == 0);
        tell(own);
    }
    await_end(own);
}

void client(struct place place)
{
    int own = tcp_connected(place.address, place.port), childs[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        childs[i] = tcp_connected(place.address, place.port);
    pings(own, ROUNDS);
    for (int i = 0; i < CHILDREN; i++) {
        pings(childs[i], TALKS);
        for (int talk = 0; talk < TALKS; talk++)
            tell(childs[i]);
        pings(own, ROUNDS);
        for (int talk = 0; talk < TALKS; talk++)
            await(childs[i]);
        await(own);
        CHECK(close(childs[i]) == 0);
    }
    CHECK(close(own) == 0);
}
