/* sendfile(2): from the file's position and from an offset, to the end of the file, and what it refuses. */
#include "api.h"
#include <sys/sendfile.h>

#define SIZE 300000

static unsigned char pattern(long at)
{
    return (unsigned char)(at * 31 + at / 251);
}

static void expect(int fd, long from, long count)
{
    static unsigned char data[SIZE];
    recv_all(fd, data, (size_t)count);
    for (long i = 0; i < count; i++)
        CHECK(data[i] == pattern(from + i));
}

void server(struct place place)
{
    int fd = tcp_serve_one(place);
    expect(fd, 0, 1000);
    expect(fd, 1000, 5000);
    expect(fd, 200000, 100000);
    expect(fd, 0, SIZE);
    await_end(fd);
}

void client(struct place place)
{
    char name[] = "/tmp/api-sendfile-XXXXXX";
    int fd = tcp_connected(place.address, place.port), file = mkstemp(name), pipes[2];
    static unsigned char data[SIZE];
    CHECK(file >= 0 && unlink(name) == 0);
    for (long i = 0; i < SIZE; i++)
        data[i] = pattern(i);
    CHECK(write(file, data, SIZE) == SIZE);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    CHECK(sendfile(fd, file, NULL, 1000) == 1000);
    CHECK(lseek(file, 0, SEEK_CUR) == 1000);
    off_t at_byte = 1000;
    CHECK(sendfile(fd, file, &at_byte, 5000) == 5000 && at_byte == 6000);
    CHECK(lseek(file, 0, SEEK_CUR) == 1000);
    at_byte = 200000;
    CHECK(sendfile(fd, file, &at_byte, SIZE) == 100000 && at_byte == SIZE); /* the file ends */
    CHECK(sendfile(fd, file, &at_byte, 10) == 0);
    CHECK(sendfile(fd, file, &at_byte, 0) == 0);
    CHECK(pipe(pipes) == 0);
    at_byte = -1;
    CHECK_ERRNO(sendfile(fd, file, &at_byte, 10), EINVAL);
    CHECK_ERRNO(sendfile(fd, -1, NULL, 10), EBADF);
    at_byte = 0;
    long sent = 0;
    while (sent < SIZE) {
        ssize_t count = sendfile(fd, file, &at_byte, (size_t)(SIZE - sent));
        CHECK(count > 0);
        sent += count;
    }
    CHECK(at_byte == SIZE);
}
