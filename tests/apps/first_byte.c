/* A short program: one connection, a byte there and back. Says how many milliseconds passed from socket() to the end of
 * connect() and to the byte. Arguments: address and port. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

static double now(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int count, char **words)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	double begun = now(), connected;
	int peer = socket(AF_INET, SOCK_STREAM, 0);
	char byte = 'x';

	if (count != 3)
		return 2;
	to.sin_port = htons(atoi(words[2]));
	inet_pton(AF_INET, words[1], &to.sin_addr);
	if (connect(peer, (struct sockaddr *)&to, sizeof(to)) < 0)
		return perror("connect"), 1;
	connected = now();
	if (send(peer, &byte, 1, 0) != 1 || recv(peer, &byte, 1, 0) != 1)
		return perror("a byte"), 1;
	printf("%.3f %.3f\n", connected - begun, now() - begun);
	return 0;
}
