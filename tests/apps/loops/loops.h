/* What the echo programs of event loops share: PROGRAM server ADDRESS PORT echoes TCP and UDP at one port; PROGRAM client
 * ADDRESS PORT SECONDS makes round trips on several sockets of each, checks every answer, and prints their rate. Sockets are
 * opened by the main thread while the loops wait already, in threads of their own, with nothing to wait for. */
#ifndef LOOPS_H
#define LOOPS_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sockets of each protocol, and messages. */
#define FLOWS 4
#define SIZE 64

#define CHECK(expression) \
    do { \
        if (!(expression)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expression); \
            _exit(1); \
        } \
    } while (0)

/* A message that no other flow and no other round has. */
static inline void fill(char *message, unsigned flow, unsigned round)
{
    memset(message, (int)(flow * 31 + round), SIZE);
    memcpy(message, &flow, 4);
    memcpy(message + 4, &round, 4);
}

static inline int is_answer(const char *answer, unsigned flow, unsigned round)
{
    char message[SIZE];
    fill(message, flow, round);
    return memcmp(answer, message, SIZE) == 0;
}

/* Seconds that a flow may take beyond the run to have its first answer: on a busy machine, after a lost SYN. */
#define PATIENCE 20

/* Every flow has had answers; says how many a second. */
static inline int report(const unsigned *rounds, unsigned flows, unsigned seconds)
{
    unsigned long all = 0;
    for (unsigned flow = 0; flow < flows; flow++) {
        if (rounds[flow] == 0) {
            fprintf(stderr, "flow %u had no answer\n", flow);
            return 1;
        }
        all += rounds[flow];
    }
    printf("round trips/s %.0f\n", (double)all / seconds);
    return 0;
}

static inline struct sockaddr_in named(const char *address, const char *port)
{
    struct sockaddr_in name;
    memset(&name, 0, sizeof name);
    name.sin_family = AF_INET;
    name.sin_port = htons((uint16_t)atoi(port));
    CHECK(inet_pton(AF_INET, address, &name.sin_addr) == 1);
    return name;
}

#endif
