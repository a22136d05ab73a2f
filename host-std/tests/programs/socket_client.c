/* A rank over pmi_client_socket.h: ADDRESS:PORT of the launcher, and its process id. With PMI_CLIENT_LWIP the client's
 * connection is one of lwIP, to a relay in this process that passes the bytes to the launcher: the stack has no device
 * but its own loopback. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmi_client_socket.h"

static void expect(const char *what, int is_so)
{
    if (!is_so) {
        printf("not so: %s (%s)\n", what, strerror(errno));
        exit(1);
    }
}

#ifdef PMI_CLIENT_LWIP
#include <lwip/netif.h>
#include <lwip/sockets.h>
#include <lwip/tcpip.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#define OWN "10.0.0.1:7000"

static struct netif own;
static sem_t is_up;

/* What the stack does not send to itself has no way out. */
static err_t no_output(struct netif *netif, struct pbuf *packet, const ip4_addr_t *to)
{
    (void)netif, (void)packet, (void)to;
    return ERR_IF;
}

static err_t prepare(struct netif *netif)
{
    netif->name[0] = 'p', netif->name[1] = 'm';
    netif->output = no_output;
    netif->mtu = 1500;
    return ERR_OK;
}

static void configure(void *unused)
{
    (void)unused;
    ip4_addr_t address, mask, gateway;
    IP4_ADDR(&address, 10, 0, 0, 1);
    IP4_ADDR(&mask, 255, 255, 255, 0);
    IP4_ADDR(&gateway, 0, 0, 0, 0);
    expect("a network", netif_add(&own, &address, &mask, &gateway, NULL, prepare, tcpip_input) != NULL);
    netif_set_default(&own);
    netif_set_link_up(&own);
    netif_set_up(&own);
    sem_post(&is_up);
}

struct relay {
    const char *launcher;
    int listener, inner, outer;
};

/* From the launcher to the client. */
static void *inwards(void *context)
{
    struct relay *relay = context;
    char bytes[256];
    ssize_t len;
    while ((len = recv(relay->outer, bytes, sizeof bytes, 0)) > 0)
        lwip_send(relay->inner, bytes, (size_t)len, 0);
    lwip_shutdown(relay->inner, SHUT_WR);
    return NULL;
}

/* From the client to the launcher. */
static void *outwards(void *context)
{
    struct relay *relay = context;
    pthread_t other;
    char bytes[256];
    ssize_t len;
    relay->inner = lwip_accept(relay->listener, NULL, NULL);
    expect("a client", relay->inner >= 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    to.sin_port = htons((uint16_t)atoi(strrchr(relay->launcher, ':') + 1));
    relay->outer = socket(AF_INET, SOCK_STREAM, 0);
    expect("a launcher", connect(relay->outer, (struct sockaddr *)&to, sizeof to) == 0);
    expect("a thread", pthread_create(&other, NULL, inwards, relay) == 0);
    while ((len = lwip_recv(relay->inner, bytes, sizeof bytes, 0)) > 0)
        expect("bytes for the launcher", send(relay->outer, bytes, (size_t)len, MSG_NOSIGNAL) == len);
    shutdown(relay->outer, SHUT_WR);
    pthread_join(other, NULL);
    return NULL;
}

static pthread_t relaying;

/* Starts the stack and the relay. */
static const char *prepared(const char *launcher)
{
    static struct relay relay;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(7000)};
    relay.launcher = launcher;
    sem_init(&is_up, 0, 0);
    tcpip_init(configure, NULL);
    sem_wait(&is_up);
    relay.listener = lwip_socket(AF_INET, SOCK_STREAM, 0);
    expect("a port", lwip_bind(relay.listener, (struct sockaddr *)&at, sizeof at) == 0);
    expect("a listener", lwip_listen(relay.listener, 1) == 0);
    expect("a thread", pthread_create(&relaying, NULL, outwards, &relay) == 0);
    return OWN;
}

static void finish(void) { pthread_join(relaying, NULL); }
#else
static const char *prepared(const char *launcher) { return launcher; }
static void finish(void) {}
#endif

static struct pmi_client client;
static struct pmi_client_socket line;

int main(int argc, char **argv)
{
    expect("two arguments", argc == 3);
    static const char *const wrong[] = {"", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:65536", "10.0.0.256:1",
                                        "10.0.0:1", "10.0.0.1:1x", "localhost:1", "10.0.0.99999999999999999999:1"};
    for (size_t at = 0; at < sizeof wrong / sizeof *wrong; at++)
        expect(wrong[at], pmi_client_socket_connect(&line, wrong[at]) == -1 && errno == EINVAL);
    const char *port = prepared(argv[1]);
    expect("nobody listens there", pmi_client_socket_connect(&line, "127.0.0.1:1") == -1);
    expect("connect", pmi_client_socket_connect(&line, port) == 0);
    struct pmi_client_link link = pmi_client_socket_link(&line);
    expect("init", pmi_client_init(&client, &link) == 0);
    expect("greet", pmi_client_greet(&client, strtoull(argv[2], NULL, 10)) == 0);
    expect("open", pmi_client_open(&client) == 0);
    unsigned rank = pmi_client_rank(&client), size = pmi_client_size(&client);
    char key[16], value[1024], card[1024];
    /* Longer than what one read takes from the socket. */
    snprintf(key, sizeof key, "card-%u", rank);
    memset(card, 'a' + (int)rank, sizeof card);
    expect("put", pmi_client_put(&client, key, card, 900) == 0);
    expect("fence", pmi_client_fence(&client) == 0);
    for (unsigned peer = 0; peer < size; peer++) {
        snprintf(key, sizeof key, "card-%u", peer);
        memset(card, 'a' + (int)peer, sizeof card);
        expect("get", pmi_client_get(&client, key, value, sizeof value) == 0);
        expect("value", pmi_client_length(&client) == 900 && memcmp(value, card, 900) == 0);
    }
    expect("finalize", pmi_client_finalize(&client) == 0);
    pmi_client_socket_close(&line);
    finish();
    printf("rank %u of %u is done\n", rank, size);
    return 0;
}
