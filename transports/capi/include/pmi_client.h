/* PMI-1 client for kernels and boards without a C library.
 *
 * The caller provides the memory of a client and a link: two functions that move bytes and wait for nothing. The
 * library allocates nothing, starts no thread, and needs no function of libc but memcpy, memmove, memset and memcmp,
 * which the archive contains for targets without them.
 *
 *     static struct pmi_client client;
 *
 *     pmi_client_init(&client, &link);
 *     if (pmi_client_open(&client) == 0 && pmi_client_put(&client, "card-3", card, sizeof card) == 0)
 *         pmi_client_fence(&client);
 *
 * Every call exists twice. pmi_client_X waits for the answer of the server. pmi_client_start_X sends nothing yet, and
 * pmi_client_poll then moves bytes until the answer is there; while it returns PMI_CLIENT_PENDING, do other work, for
 * example until the interrupt of the link. There is one call at a time.
 *
 * Threads and interrupts: a client is used by one thread at a time, and not by an interrupt handler while a call of
 * it runs in the thread. The functions of the link are called within calls of the client only.
 */
#ifndef PMI_CLIENT_H
#define PMI_CLIENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of a client; its contents are private. It must not be moved while a call is pending. */
struct pmi_client {
    uint64_t memory[sizeof(void *) > 4 ? 244 : 232];
};

/* A connection to the server. Both functions return at once: the number of bytes moved, PMI_CLIENT_NOT_NOW if none
 * can be moved now, or PMI_CLIENT_CLOSED if none ever will be. The client reads one byte at a time, and none behind the
 * answer that it waits for; a link whose reads are expensive keeps a buffer of its own. */
struct pmi_client_link {
    int32_t (*read)(void *context, unsigned char *bytes, size_t room);
    int32_t (*write)(void *context, const unsigned char *bytes, size_t len);
    /* Called by waiting calls when no byte can be moved, to sleep until that changes; may be NULL. */
    void (*wait)(void *context);
    void *context;
};

enum {
    PMI_CLIENT_NOT_NOW = 0,
    PMI_CLIENT_CLOSED = -1
};

/* Results of calls. */
enum {
    PMI_CLIENT_SUCCESS = 0,
    /* The answer is not there yet; call pmi_client_poll again. */
    PMI_CLIENT_PENDING = 1,
    /* The link is closed, or has failed. The session is over. */
    PMI_CLIENT_E_LINK = -1,
    /* The server has sent something that is no PMI. The session is over. */
    PMI_CLIENT_E_PROTOCOL = -2,
    /* A call is pending, or the call does not fit the state of the session, or an argument is invalid: NULL, an empty
     * key or value, or a blank, a line end or NUL in one, which PMI-1 cannot carry. Nothing was sent. */
    PMI_CLIENT_E_MISUSE = -3,
    /* The request is longer than a message, or the value than the memory for it, which is unchanged then. */
    PMI_CLIENT_E_ROOM = -4,
    /* The server refuses the request; pmi_client_code returns its code. The session continues. */
    PMI_CLIENT_E_REFUSED = -5,
    /* There is no such key. The session continues. */
    PMI_CLIENT_E_NO_KEY = -6
};

/* Prepares the memory of a client over a link, which is copied. Nothing is sent. */
int pmi_client_init(struct pmi_client *client, const struct pmi_client_link *link);

/* Names the process at this end of the link, before pmi_client_open: on serial lines and over TCP, where the server
 * cannot know. Needs the feature `greet` of the library. cmd=initack */
int pmi_client_greet(struct pmi_client *client, uint64_t id);
int pmi_client_start_greet(struct pmi_client *client, uint64_t id);

/* Rank and number of ranks, after pmi_client_greet. 0 before. */
uint32_t pmi_client_rank(const struct pmi_client *client);
uint32_t pmi_client_size(const struct pmi_client *client);

/* Opens the session in PMI-1.1 and requests the name of the key-value space. cmd=init, cmd=get_my_kvsname */
int pmi_client_open(struct pmi_client *client);
int pmi_client_start_open(struct pmi_client *client);

/* Stores len bytes under a key, which ends with NUL. Others see them after the next fence. cmd=put */
int pmi_client_put(struct pmi_client *client, const char *key, const void *value, size_t len);
int pmi_client_start_put(struct pmi_client *client, const char *key, const void *value, size_t len);

/* Copies the value of a key into memory for room bytes; pmi_client_length returns its length, which counts no NUL and
 * none is written. The memory must stay valid until the call is answered. cmd=get */
int pmi_client_get(struct pmi_client *client, const char *key, void *value, size_t room);
int pmi_client_start_get(struct pmi_client *client, const char *key, void *value, size_t room);
size_t pmi_client_length(const struct pmi_client *client);

/* Waits until all ranks have called it. cmd=barrier_in */
int pmi_client_fence(struct pmi_client *client);
int pmi_client_start_fence(struct pmi_client *client);

/* Ends the session in order. cmd=finalize */
int pmi_client_finalize(struct pmi_client *client);
int pmi_client_start_finalize(struct pmi_client *client);

/* Ends the job with a code and a message, which ends with NUL and may be NULL. There is no answer. cmd=abort */
int pmi_client_abort(struct pmi_client *client, int code, const char *message);
int pmi_client_start_abort(struct pmi_client *client, int code, const char *message);

/* Moves bytes for the pending call, without waiting: its result, or PMI_CLIENT_PENDING. Without a pending call
 * PMI_CLIENT_E_MISUSE. */
int pmi_client_poll(struct pmi_client *client);

/* Code of the server after PMI_CLIENT_E_REFUSED. */
int pmi_client_code(const struct pmi_client *client);

#ifdef __cplusplus
}
#endif
#endif
