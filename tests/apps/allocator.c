// A program with an allocator and a C library as they may be: the allocator makes a system call by syscall() while it prepares
// itself under its lock, as jemalloc does, and dlsym allocates, as glibc's did before 2.34. Whoever asks dlsym for the genuine
// syscall then waits for that lock for ever; here it is noticed, and the program ends with 3.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);

static int locked, prepared;

static void prepare(void) {
    if (locked) {
        // exit_group(3), by no function that a library could stand behind.
        __asm__ volatile("syscall" : : "a"(231), "D"(3) : "rcx", "r11", "memory");
    }
    if (prepared) return;
    locked = 1;
    if (syscall(SYS_getpid) <= 0 || syscall(SYS_close, -1) != -1) _exit(4);
    prepared = 1;
    locked = 0;
}

void *malloc(size_t size) {
    prepare();
    return __libc_malloc(size);
}

// Of the C library itself; RTLD_NEXT would be relative to this program.
void *dlsym(void *handle, const char *name) {
    prepare();
    static void *library;
    if (!library) library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    (void)handle;
    return dlvsym(library, name, "GLIBC_2.2.5");
}

// Before any library's constructor, as malloc is called when ld.so uses it.
static void early(void) { prepare(); }
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = early;

int main(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || syscall(SYS_close, fd) != 0 || syscall(SYS_close, fd) != -1) return 1;
    puts("well");
    return 0;
}
