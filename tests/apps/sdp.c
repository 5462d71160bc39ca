/* A stream between two sockets of one process at a port that the kernel chooses, unless it is given; in the family that is given.
 * Prints the families that names and options tell, what arrived, and the port.
 *
 *     sdp FAMILY [PORT]                                                                                                       */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/sdp_socket.h"

static void must(int is_done, const char *what)
{
	if (!is_done) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	int family = argc > 1 ? atoi(argv[1]) : AF_INET_SDP;
	struct sockaddr_in name = {.sin_family = family, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof name;
	name.sin_port = htons(argc > 2 ? atoi(argv[2]) : 0);

	int listener = socket(family, SOCK_STREAM, 0), one = 1;
	must(listener >= 0, "socket");
	must(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0, "setsockopt");
	must(bind(listener, (struct sockaddr *)&name, sizeof name) == 0, "bind");
	must(listen(listener, 1) == 0, "listen");
	must(getsockname(listener, (struct sockaddr *)&name, &length) == 0, "getsockname");
	int at = name.sin_family, port = ntohs(name.sin_port);

	int client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	must(client >= 0, "socket");
	name.sin_family = family;
	must(connect(client, (struct sockaddr *)&name, sizeof name) == 0, "connect");
	length = sizeof name;
	must(getpeername(client, (struct sockaddr *)&name, &length) == 0, "getpeername");
	int to = name.sin_family;

	length = sizeof name;
	int server = accept(listener, (struct sockaddr *)&name, &length);
	must(server >= 0, "accept");
	int domain = 0;
	length = sizeof domain;
	must(getsockopt(client, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0, "getsockopt");

	char arrived[8] = "";
	must(send(client, "hello", 5, 0) == 5, "send");
	must(recv(server, arrived, 5, MSG_WAITALL) == 5, "recv");
	printf("%d %d %d %d %s\n%d\n", at, to, name.sin_family, domain, arrived, port);
	return 0;
}
