/* Moves a stream whose every word is known in advance, and says at which byte it first differs.
 *
 *     transfer receive listen  ADDRESS PORT MIB     transfer send connect ADDRESS PORT MIB
 *
 * Either side may listen. The receiver answers one byte once it has seen everything, so that the sender knows. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHUNK (64 * 1024)

static void die(const char *what)
{
    fprintf(stderr, "transfer: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

/* splitmix64: the word at `index` of the stream. */
static uint64_t word_at(uint64_t index)
{
    uint64_t word = (index + 1) * 0x9E3779B97F4A7C15ull;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

static void fill(uint64_t *words, uint64_t first)
{
    for (uint64_t i = 0; i < CHUNK / 8; i++)
        words[i] = word_at(first + i);
}

static int joined(const char *how, const char *address, int port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || inet_pton(AF_INET, address, &name.sin_addr) != 1)
        die("socket");
    if (strcmp(how, "connect") == 0) {
        if (connect(fd, (struct sockaddr *)&name, sizeof name) != 0)
            die("connect");
        return fd;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&name, sizeof name) != 0 || listen(fd, 1) != 0)
        die("listen");
    int accepted = accept(fd, NULL, NULL);
    if (accepted < 0)
        die("accept");
    return accepted;
}

static void send_stream(int fd, uint64_t chunks)
{
    static uint64_t words[CHUNK / 8];
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        fill(words, chunk * (CHUNK / 8));
        for (size_t done = 0; done < CHUNK;) {
            ssize_t count = send(fd, (char *)words + done, CHUNK - done, MSG_NOSIGNAL);
            if (count <= 0)
                die("send");
            done += (size_t)count;
        }
    }
    char answer = 0;
    if (recv(fd, &answer, 1, 0) != 1 || answer != '!')
        die("the receiver's answer");
}

static void receive_stream(int fd, uint64_t chunks)
{
    static uint64_t words[CHUNK / 8], wanted[CHUNK / 8];
    for (uint64_t chunk = 0; chunk < chunks; chunk++) {
        for (size_t done = 0; done < CHUNK;) {
            ssize_t count = recv(fd, (char *)words + done, CHUNK - done, 0);
            if (count <= 0)
                die("recv");
            done += (size_t)count;
        }
        fill(wanted, chunk * (CHUNK / 8));
        if (memcmp(words, wanted, CHUNK) != 0) {
            size_t at = 0;
            while (((char *)words)[at] == ((char *)wanted)[at])
                at++;
            fprintf(stderr, "transfer: byte %llu differs\n", (unsigned long long)(chunk * CHUNK + at));
            exit(1);
        }
    }
    if (send(fd, "!", 1, MSG_NOSIGNAL) != 1)
        die("answer");
    char more;
    if (recv(fd, &more, 1, 0) != 0)
        die("end of the stream");
}

int main(int count, char **words)
{
    if (count != 6) {
        fprintf(stderr, "usage: %s send|receive listen|connect ADDRESS PORT MIB\n", words[0]);
        return 2;
    }
    uint64_t chunks = strtoull(words[5], NULL, 10) * 1024 * 1024 / CHUNK;
    int fd = joined(words[2], words[3], atoi(words[4]));
    (strcmp(words[1], "send") == 0 ? send_stream : receive_stream)(fd, chunks);
    close(fd);
    printf("%llu MiB intact\n", (unsigned long long)(chunks * CHUNK >> 20));
    return 0;
}
