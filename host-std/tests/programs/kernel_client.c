/* A rank that uses pmi_client.h as a kernel without libc would: ranks with an even number by calls that wait, the others
 * by calls that are polled. The link is the descriptor of the launcher. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pmi_client.h"

static struct pmi_client client;
static int rank, polls;

static int fd_of(void *context) { return *(int *)context; }

static int32_t moved(ssize_t count)
{
    if (count > 0)
        return (int32_t)count;
    return count < 0 && (errno == EAGAIN || errno == EINTR) ? PMI_CLIENT_NOT_NOW : PMI_CLIENT_CLOSED;
}

static int32_t link_read(void *context, unsigned char *bytes, size_t room)
{
    return moved(recv(fd_of(context), bytes, room, MSG_DONTWAIT));
}

static int32_t link_write(void *context, const unsigned char *bytes, size_t len)
{
    /* One byte at a time shows that no call depends on whole messages. */
    return moved(send(fd_of(context), bytes, len > 0 && rank == 3 ? 1 : len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

static void link_wait(void *context)
{
    struct pollfd wanted = {fd_of(context), POLLIN, 0};
    poll(&wanted, 1, 1000);
}

static int result_of(int started)
{
    while (started == PMI_CLIENT_PENDING) {
        polls++;
        started = pmi_client_poll(&client);
    }
    return started;
}

#define CALL(name, ...) \
    (rank % 2 ? result_of(pmi_client_start_##name(&client, ##__VA_ARGS__)) : pmi_client_##name(&client, ##__VA_ARGS__))

static void expect(const char *what, int found, int wanted)
{
    if (found != wanted) {
        printf("rank %d: %s is %d, not %d\n", rank, what, found, wanted);
        exit(1);
    }
}

int main(void)
{
    int fd = atoi(getenv("PMI_FD")), size = atoi(getenv("PMI_SIZE"));
    struct pmi_client_link link = {link_read, link_write, link_wait, &fd};
    char key[16], value[64], card[64];
    static char large[2000];
    rank = atoi(getenv("PMI_RANK"));

    expect("init without memory", pmi_client_init(NULL, &link), PMI_CLIENT_E_MISUSE);
    expect("init without a link", pmi_client_init(&client, NULL), PMI_CLIENT_E_MISUSE);
    expect("init", pmi_client_init(&client, &link), PMI_CLIENT_SUCCESS);
    expect("poll without a call", pmi_client_poll(&client), PMI_CLIENT_E_MISUSE);
    expect("put before open", CALL(put, "key", "value", 5), PMI_CLIENT_E_MISUSE);
    expect("open", CALL(open), PMI_CLIENT_SUCCESS);
    expect("open again", CALL(open), PMI_CLIENT_E_MISUSE);

    snprintf(key, sizeof key, "card-%d", rank);
    int len = snprintf(card, sizeof card, "switch-%d,port-%d", rank / 2, rank);
    expect("put", CALL(put, key, card, (size_t)len), PMI_CLIENT_SUCCESS);
    expect("key with a blank", CALL(put, "a b", card, 1), PMI_CLIENT_E_MISUSE);
    expect("key without memory", CALL(put, NULL, card, 1), PMI_CLIENT_E_MISUSE);
    expect("value without memory", CALL(put, "key", NULL, 1), PMI_CLIENT_E_MISUSE);
    memset(large, 'x', sizeof large);
    expect("value that is too long", CALL(put, "large", large, sizeof large), PMI_CLIENT_E_ROOM);
    expect("start of a fence", pmi_client_start_fence(&client), PMI_CLIENT_PENDING);
    expect("second call", pmi_client_start_fence(&client), PMI_CLIENT_E_MISUSE);
    expect("fence", result_of(PMI_CLIENT_PENDING), PMI_CLIENT_SUCCESS);

    for (int peer = 0; peer < size; peer++) {
        snprintf(key, sizeof key, "card-%d", peer);
        snprintf(card, sizeof card, "switch-%d,port-%d", peer / 2, peer);
        memset(value, 0, sizeof value);
        expect("get", CALL(get, key, value, sizeof value), PMI_CLIENT_SUCCESS);
        expect("length", (int)pmi_client_length(&client), (int)strlen(card));
        expect("value", strcmp(value, card), 0);
    }
    value[3] = '!';
    expect("get with little room", CALL(get, "card-0", value, 3), PMI_CLIENT_E_ROOM);
    expect("length that is needed", (int)pmi_client_length(&client), 15);
    expect("byte behind the room", value[3], '!');
    expect("get of no key", CALL(get, "card-none", value, sizeof value), PMI_CLIENT_E_NO_KEY);
    if (rank == 2 && getenv("ABORTS"))
        return CALL(abort, 7, "the third rank ends the job");
    expect("fence before an abort", getenv("ABORTS") ? CALL(fence) : 0, 0);
    expect("finalize", CALL(finalize), PMI_CLIENT_SUCCESS);
    expect("polls", polls > 0, 1);
    printf("rank %d of %d is done\n", rank, size);
    return 0;
}
