/* Sockets that speak SDP, for programs that ask for them: another family in socket(2), under libsdp.so.
 *
 *     int fd = socket(AF_INET_SDP, SOCK_STREAM, 0);
 *
 * Addresses may be of AF_INET or AF_INET_SDP; what getsockname(2), getpeername(2) and accept(2) tell is AF_INET.
 * Without libsdp.so such a socket fails with EAFNOSUPPORT.
 *
 * Topspin's manual has 26, which Linux uses for AF_LLC; libsdp.so takes that, too, where the kernel has no LLC. 27 and 28 are OFED's
 * numbers: Linux names them AF_IB and AF_MPLS and has no sockets of them. */
#ifndef SDP_SOCKET_H
#define SDP_SOCKET_H

#include <sys/socket.h>

#ifndef AF_INET_SDP
#define AF_INET_SDP 27
#endif
#define PF_INET_SDP AF_INET_SDP

#ifndef AF_INET6_SDP
#define AF_INET6_SDP 28
#endif
#define PF_INET6_SDP AF_INET6_SDP

#endif
