/* SO_TIMESTAMPING for what is sent: the stamps come by the queue of errors, of datagrams and of a connection that
 * stands. */
#include "api.h"
#include <linux/errqueue.h>
#include <linux/net_tstamp.h>

enum { SENDS = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE | SOF_TIMESTAMPING_OPT_ID };

static void asks_for_stamps(int fd)
{
    int flags = SENDS;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &flags, sizeof flags) == 0);
    CHECK(option(fd, SOL_SOCKET, SO_TIMESTAMPING) == SENDS);
}

/* Of the datagram, or the byte, of this number. */
static void is_stamped(int fd, unsigned number)
{
    char data[512], control[512];
    struct iovec piece = {.iov_base = data, .iov_len = sizeof data};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int stamps = 0, numbers = 0;
    CHECK(polled(fd, 0) & POLLERR);
    CHECK(recvmsg(fd, &message, MSG_ERRQUEUE) >= 0);
    for (struct cmsghdr *one = CMSG_FIRSTHDR(&message); one != NULL; one = CMSG_NXTHDR(&message, one)) {
        struct scm_timestamping stamp;
        struct sock_extended_err error;
        if (one->cmsg_level == SOL_SOCKET && one->cmsg_type == SCM_TIMESTAMPING) {
            memcpy(&stamp, CMSG_DATA(one), sizeof stamp);
            stamps += stamp.ts[0].tv_sec > 0;
        } else if (one->cmsg_level == IPPROTO_IP && one->cmsg_type == IP_RECVERR) {
            memcpy(&error, CMSG_DATA(one), sizeof error);
            CHECK(error.ee_errno == ENOMSG && error.ee_origin == SO_EE_ORIGIN_TIMESTAMPING);
            CHECK(error.ee_info == SCM_TSTAMP_SND && error.ee_data == number);
            numbers++;
        }
    }
    CHECK(stamps == 1 && numbers == 1);
}

void server(struct place place)
{
    int udp = udp_bound(place.address, place.port + 1);
    int fd = tcp_serve_one(place);
    answers(fd, 30);
    await(fd); /* and has acknowledged the last answer: bytes are numbered from there */
    asks_for_stamps(fd);
    CHECK(send(fd, "four", 4, 0) == 4);
    is_stamped(fd, 3);
    for (int i = 0; i < 3; i++)
        await(udp);
    await(fd);
    tell(fd);
    await_end(fd);
}

void client(struct place place)
{
    char text[4];
    int udp = udp_connected(place.address, place.port + 1);
    int fd = tcp_connected(place.address, place.port);
    pings(fd, 30);
    tell(fd);
    recv_all(fd, text, sizeof text);
    tell(udp);
    asks_for_stamps(udp);
    for (unsigned i = 0; i < 2; i++) {
        tell(udp);
        is_stamped(udp, i);
    }
    tell(fd);
    await(fd);
}
