/* Says what the first socket of a program comes to: the processes and threads begun for it, in this namespace of
 * processes, the reads of files, and whether a library keeps statistics then, and at a call some time later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The number behind `word` in a file. */
static long number(const char *path, const char *word)
{
    static char text[4096];
    FILE *file = fopen(path, "r");
    size_t length = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    if (length == 0 || fclose(file) != 0)
        exit(1);
    text[length] = 0;
    const char *found = strstr(text, word);
    return found == NULL ? -1 : atol(found + strlen(word));
}

static const char *counted(const char *path)
{
    return access(path, F_OK) == 0 ? "counted" : "nobody counts";
}

int main(void)
{
    long begun = number("/proc/sys/kernel/ns_last_pid", "");
    long reads = number("/proc/self/io", "syscr: ");
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0)
        return 1;
    reads = number("/proc/self/io", "syscr: ") - reads;
    begun = number("/proc/sys/kernel/ns_last_pid", "") - begun;
    char path[64];
    snprintf(path, sizeof path, "/tmp/vmastat.%d", (int)getpid());
    printf("%ld begun, %ld reads, %s, ", begun, reads, counted(path));
    /* Long enough for a library to expect that this goes on. */
    usleep(50000);
    if (send(fd, "", 1, MSG_NOSIGNAL) >= 0)
        return 1;
    printf("%s\n", counted(path));
    return 0;
}
