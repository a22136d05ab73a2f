/* A socket as the link of a client: the functions of pmi_client_socket.h.
 *
 * lwIP's own names are used with -DPMI_CLIENT_LWIP, those of Zephyr where Zephyr's compiler is, else those of POSIX. */
#include "pmi_client_socket.h"

#include <errno.h>
#include <string.h>

#if defined(PMI_CLIENT_LWIP)
#include <lwip/sockets.h>
#define CALL(name) lwip_##name
#elif defined(__ZEPHYR__)
#include <zephyr/net/socket.h>
#define CALL(name) zsock_##name
#define pollfd zsock_pollfd
#ifndef POLLIN
#define POLLIN ZSOCK_POLLIN
#define POLLOUT ZSOCK_POLLOUT
#endif
#ifndef MSG_DONTWAIT
#define MSG_DONTWAIT ZSOCK_MSG_DONTWAIT
#endif
#else
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#define CALL(name) name
#endif

/* Unix would end the process that sends to a closed connection. */
#ifdef MSG_NOSIGNAL
enum { AT_ONCE = MSG_DONTWAIT | MSG_NOSIGNAL };
#else
enum { AT_ONCE = MSG_DONTWAIT };
#endif

/* Longest wait of a call for one direction, in milliseconds. */
enum { WAIT_MS = 1000 };

/* Reads a number up to max and moves to the byte behind it; -1 if there is none. */
static long number(const char **at, long max)
{
    long value = 0;
    if (**at < '0' || **at > '9')
        return -1;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        value = value * 10 + (**at - '0');
        if (value > max)
            return -1;
    }
    return value;
}

/* Reads A.B.C.D:PORT. */
static int address_of(const char *text, struct sockaddr_in *address)
{
    unsigned char octets[6];
    memset(address, 0, sizeof *address);
    for (int at = 0; at < 4; at++) {
        long octet = number(&text, 255);
        if (octet < 0 || *text++ != (at < 3 ? '.' : ':'))
            return -1;
        octets[at] = (unsigned char)octet;
    }
    long port = number(&text, 65535);
    if (port <= 0 || *text)
        return -1;
    octets[4] = (unsigned char)(port >> 8);
    octets[5] = (unsigned char)port;
    address->sin_family = AF_INET;
    /* In the order of the network, without the macros that some systems lack. */
    memcpy(&address->sin_addr, octets, 4);
    memcpy(&address->sin_port, octets + 4, 2);
    return 0;
}

int pmi_client_socket_connect(struct pmi_client_socket *line, const char *port)
{
    struct sockaddr_in address;
    if (!port || address_of(port, &address)) {
        errno = EINVAL;
        return -1;
    }
    int descriptor = CALL(socket)(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0)
        return -1;
    if (CALL(connect)(descriptor, (const struct sockaddr *)&address, sizeof address)) {
        int reason = errno;
        CALL(close)(descriptor);
        errno = reason;
        return -1;
    }
    pmi_client_socket_init(line, descriptor);
    return 0;
}

void pmi_client_socket_init(struct pmi_client_socket *line, int descriptor)
{
    line->descriptor = descriptor;
    line->first = line->end = 0;
    line->is_sending = 0;
}

/* Number of moved bytes as a link returns it. */
static int32_t moved(long count)
{
    if (count > 0)
        return (int32_t)count;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return PMI_CLIENT_NOT_NOW;
    return PMI_CLIENT_CLOSED;
}

/* A client reads bytes one by one; the socket is read in larger pieces. */
static int32_t line_read(void *context, unsigned char *bytes, size_t room)
{
    struct pmi_client_socket *line = context;
    line->is_sending = 0;
    if (room == 0)
        return PMI_CLIENT_NOT_NOW;
    if (line->first == line->end) {
        int32_t count = moved(CALL(recv)(line->descriptor, line->bytes, sizeof line->bytes, MSG_DONTWAIT));
        if (count <= 0)
            return count;
        line->first = 0;
        line->end = (uint16_t)count;
    }
    size_t count = (size_t)(line->end - line->first);
    if (count > room)
        count = room;
    memcpy(bytes, line->bytes + line->first, count);
    line->first = (uint16_t)(line->first + count);
    return (int32_t)count;
}

static int32_t line_write(void *context, const unsigned char *bytes, size_t len)
{
    struct pmi_client_socket *line = context;
    line->is_sending = 1;
    return len == 0 ? PMI_CLIENT_NOT_NOW : moved(CALL(send)(line->descriptor, bytes, len, AT_ONCE));
}

static void line_wait(void *context)
{
    struct pmi_client_socket *line = context;
    struct pollfd wanted = {line->descriptor, line->is_sending ? POLLOUT : POLLIN, 0};
    CALL(poll)(&wanted, 1, WAIT_MS);
}

struct pmi_client_link pmi_client_socket_link(struct pmi_client_socket *line)
{
    struct pmi_client_link link = {line_read, line_write, line_wait, line};
    return link;
}

void pmi_client_socket_close(struct pmi_client_socket *line)
{
    CALL(close)(line->descriptor);
    line->descriptor = -1;
}
