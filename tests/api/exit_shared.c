/* Two workers share a listener; one ends without a call of accept: whoever came by way of it is the other one's. */
#include "api.h"

enum { CLIENTS = 8 };

/* Takes an interest in the listener, and says so; returns when the parent closes its end of `go`. */
static void take_part(int listener, int said, int go)
{
    struct pollfd one = {.fd = listener, .events = POLLIN};
    char byte;
    alarm(PATIENCE_MS / 1000);
    CHECK(poll(&one, 1, 0) >= 0);
    CHECK(write(said, "!", 1) == 1);
    CHECK(read(go, &byte, 1) == 0);
}

static void serve(int listener)
{
    int served[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        served[i] = accept(listener, NULL, NULL);
        CHECK(served[i] >= 0);
        await(served[i]);
        tell(served[i]);
    }
    for (int i = 0; i < CLIENTS; i++) {
        await_end(served[i]);
        CHECK(close(served[i]) == 0);
    }
}

void server(struct place place)
{
    int listener = tcp_listening(place.address, place.port), told = tcp_listening(place.address, place.port + 1);
    int go[2][2], said[2], status;
    pid_t worker[2];
    CHECK(pipe(said) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pipe(go[i]) == 0);
        worker[i] = fork();
        CHECK(worker[i] >= 0);
        if (worker[i] == 0) {
            for (int j = 0; j <= i; j++)
                CHECK(close(go[j][1]) == 0);
            take_part(listener, said[1], go[i][0]);
            if (i == 1)
                serve(listener);
            exit(0);
        }
    }
    char bytes[2];
    for (size_t got = 0; got < sizeof bytes;) {
        ssize_t count = read(said[0], bytes, sizeof bytes - got);
        CHECK(count > 0);
        got += (size_t)count;
    }
    ready();
    int control = accept(told, NULL, NULL);
    CHECK(control >= 0);
    await(control); /* they are here */
    for (int i = 0; i < 2; i++)
        CHECK(close(go[i][1]) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(waitpid(worker[i], &status, 0) == worker[i] && status == 0);
    tell(control);
}

void client(struct place place)
{
    int waiting[CLIENTS], control = tcp_connected(place.address, place.port + 1);
    for (int i = 0; i < CLIENTS; i++)
        waiting[i] = tcp_connected(place.address, place.port);
    tell(control);
    for (int i = 0; i < CLIENTS; i++)
        tell(waiting[i]);
    for (int i = 0; i < CLIENTS; i++) {
        await(waiting[i]);
        CHECK(close(waiting[i]) == 0);
    }
    await(control);
}
