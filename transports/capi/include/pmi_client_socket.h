/* A TCP socket as the link of a client of pmi_client.h, for systems with the socket calls of BSD: Zephyr, RTEMS, NuttX,
 * lwIP, and Unix. The functions are in sockets/pmi_client_socket.c, to be compiled with the program.
 *
 *     static struct pmi_client_socket line;
 *
 *     if (pmi_client_socket_connect(&line, "10.0.2.2:7000") == 0) {
 *         struct pmi_client_link link = pmi_client_socket_link(&line);
 *         pmi_client_init(&client, &link);
 *         pmi_client_greet(&client, id);
 *         ...
 *         pmi_client_socket_close(&line);
 *     }
 *
 * A waiting call sleeps in poll() until bytes can be moved. Threads: as for the client; two clients have two sockets.
 */
#ifndef PMI_CLIENT_SOCKET_H
#define PMI_CLIENT_SOCKET_H

#include "pmi_client.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Number of bytes that one read takes from the socket. */
#ifndef PMI_CLIENT_SOCKET_BYTES
#define PMI_CLIENT_SOCKET_BYTES 128
#endif

/* A connected socket; its contents are private. It must not be moved while a client uses it. */
struct pmi_client_socket {
    int descriptor;
    /* Bytes that were received and not read yet. */
    uint16_t first, end;
    /* What a waiting call waits for: room to send, or bytes. */
    unsigned char is_sending;
    unsigned char bytes[PMI_CLIENT_SOCKET_BYTES];
};

/* Connects to "A.B.C.D:PORT", as PMI_PORT names the server, and waits until that is done. 0, or -1 with errno. Names and
 * IPv6 are left to the program, which connects by itself and calls pmi_client_socket_init. */
int pmi_client_socket_connect(struct pmi_client_socket *line, const char *port);

/* Takes a connected stream socket. */
void pmi_client_socket_init(struct pmi_client_socket *line, int descriptor);

/* The link for pmi_client_init. */
struct pmi_client_link pmi_client_socket_link(struct pmi_client_socket *line);

/* Closes the socket. */
void pmi_client_socket_close(struct pmi_client_socket *line);

#ifdef __cplusplus
}
#endif
#endif
