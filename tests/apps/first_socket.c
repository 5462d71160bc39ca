/* Says what the first socket of a program comes to: the processes and threads begun for it, in this namespace of
 * processes, the reads of files, and whether a library keeps statistics. */
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

int main(void)
{
    long begun = number("/proc/sys/kernel/ns_last_pid", "");
    long reads = number("/proc/self/io", "syscr: ");
    if (socket(AF_INET, SOCK_STREAM, 0) < 0)
        return 1;
    reads = number("/proc/self/io", "syscr: ") - reads;
    begun = number("/proc/sys/kernel/ns_last_pid", "") - begun;
    char path[64];
    snprintf(path, sizeof path, "/tmp/vmastat.%d", (int)getpid());
    printf("%ld begun, %ld reads, %s\n", begun, reads, access(path, F_OK) == 0 ? "counted" : "nobody counts");
    return 0;
}
