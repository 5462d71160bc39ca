/* A stream of stdio on a socket, for reading and writing, in text, buffered, with fileno and at the end of the data. */
#include "api.h"

void server(struct place place)
{
    static char line[70000];
    int fd = tcp_serve_one(place);
    FILE *in = fdopen(fd, "r"), *out = fdopen(dup(fd), "w");
    CHECK(in && out);
    CHECK(fileno(in) == fd);
    CHECK(fgets(line, sizeof line, in) && strcmp(line, "hello 42\n") == 0);
    CHECK(fprintf(out, "got %d\n", 42) == 7);
    CHECK(fflush(out) == 0);
    CHECK(fread(line, 1, 60000, in) == 60000);
    for (int i = 0; i < 60000; i++)
        CHECK(line[i] == (char)(i * 7));
    CHECK(fgetc(in) == EOF && feof(in) && !ferror(in));
    CHECK(fputs("bye\n", out) >= 0);
    CHECK(fclose(out) == 0);
    CHECK(fclose(in) == 0);
    CHECK_ERRNO(close(fd), EBADF);
}

void client(struct place place)
{
    static char data[60000];
    char line[64];
    int fd = tcp_connected(place.address, place.port);
    FILE *both = fdopen(fd, "r+");
    CHECK(both);
    CHECK(fprintf(both, "hello %d\n", 42) == 9);
    CHECK(fflush(both) == 0);
    CHECK(fgets(line, sizeof line, both) && strcmp(line, "got 42\n") == 0);
    for (int i = 0; i < 60000; i++)
        data[i] = (char)(i * 7);
    send_all(fd, data, sizeof data);
    CHECK(shutdown(fd, SHUT_WR) == 0);
    CHECK(fgets(line, sizeof line, both) && strcmp(line, "bye\n") == 0);
    CHECK(!fgets(line, sizeof line, both));
    CHECK(fclose(both) == 0);
}
