/* What is killed at a random moment: it connects and says where it listens, takes a connection there, and talks on both
 * until its end; says when it talks. Arguments: the other side's address and port, our address and port. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(call) \
	do { \
		if ((call) < 0) { \
			perror(#call); \
			exit(1); \
		} \
	} while (0)

static struct sockaddr_in at(const char *address, const char *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
	inet_pton(AF_INET, address, &name.sin_addr);
	return name;
}

int main(int count, char **words)
{
	if (count < 5)
		return 2;
	struct sockaddr_in other = at(words[1], words[2]), own = at(words[3], words[4]);
	int on = 1, talks = 0, listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
	CHECK(bind(listener, (struct sockaddr *)&own, sizeof own));
	CHECK(listen(listener, 8));
	CHECK(connect(client, (struct sockaddr *)&other, sizeof other));
	CHECK(send(client, words[4], strlen(words[4]), 0));
	CHECK(send(client, "\n", 1, 0));
	struct pollfd all[3] = {{.fd = listener, .events = POLLIN}, {.fd = client, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
	for (;;) {
		CHECK(poll(all, 3, -1));
		if (all[0].revents && all[2].fd < 0)
			CHECK(all[2].fd = accept(listener, NULL, NULL));
		for (int i = 1; i < 3; i++) {
			char bytes[2000];
			if (all[i].fd < 0 || !all[i].revents)
				continue;
			ssize_t got = recv(all[i].fd, bytes, sizeof bytes, 0);
			if (got <= 0)
				return 1;
			CHECK(send(all[i].fd, bytes, got, 0));
			if (!talks)
				CHECK(write(1, "talks\n", 6));
			talks = 1;
		}
	}
}
