/* A server of PMI-1 and PMI-2 for launchers and resource managers, implemented by libpmi_server.so.0 of
 * the PMI family in Rust.
 *
 * The launcher starts the processes and hands over one connected stream socket for each rank, whose other
 * end is the descriptor PMI_FD of the process, besides PMI_RANK and PMI_SIZE. All ranks of a job are on
 * this machine. Attributes and connected jobs are served inside, published names too unless there is a
 * callback for them; spawns, aborts and ends of ranks are passed to callbacks. With PMI_SNAPSHOT=1 in their
 * environment, ranks with the libraries of this project share the values of their job with the server in
 * memory, so that a get after a fence needs no message.
 *
 * The server runs in pmi_server_run, or in the event loop of its owner: pmi_server_fd is readable when
 * pmi_server_step has something to do, and no function but pmi_server_run waits.
 *
 * Every function returns one of the codes below. Callbacks are called by pmi_server_step, pmi_server_run,
 * and the functions that change a job, by the thread that calls them. A callback may call every function
 * but pmi_server_step, pmi_server_run and pmi_server_free. It must return: an exception or longjmp must
 * not leave it. One thread at a time may use a server. Strings and arrays belong to their owner and are
 * copied; those that a callback gets are valid until it returns.
 */
#ifndef PMI_SERVER_H_INCLUDED
#define PMI_SERVER_H_INCLUDED

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PMI_SERVER_SUCCESS 0
#define PMI_SERVER_FAIL (-1)
#define PMI_SERVER_ERR_NOMEM 2
#define PMI_SERVER_ERR_INVALID_ARG 3

typedef struct pmi_server pmi_server;

typedef struct pmi_server_pair {
    const char *key;
    const char *value;
} pmi_server_pair;

/* One program of a spawn. The arguments begin with the executable and end with a null pointer, as for
 * execvp. Unknown pairs of info may be ignored. */
typedef struct pmi_server_program {
    const char *const *arguments;
    int processes;
    int info_count;
    const pmi_server_pair *info;
} pmi_server_program;

/* A rank of this job requests processes, in the order of their ranks, which become one job. The rank waits
 * until pmi_server_answer_spawn, in the callback or later. */
typedef struct pmi_server_spawn {
    uint64_t id;
    uint32_t job;
    int program_count;
    const pmi_server_program *programs;
    int preput_count;
    const pmi_server_pair *preputs;
} pmi_server_spawn;

#define PMI_SERVER_PUBLISH 1
#define PMI_SERVER_UNPUBLISH 2
#define PMI_SERVER_LOOKUP 3

/* A rank of this job publishes a service with a port, withdraws it, or looks up its port, which is null except
 * for PMI_SERVER_PUBLISH. The rank waits until pmi_server_answer_name, in the callback or later. */
typedef struct pmi_server_name {
    uint64_t id;
    uint32_t job;
    int rank;
    int operation;
    const char *service;
    const char *port;
} pmi_server_name;

/* Callbacks; a null pointer ignores the event, but for a spawn, which is refused, and for names, which the
 * server serves itself then. */
typedef struct pmi_server_callbacks {
    void (*spawn)(pmi_server *server, void *context, const pmi_server_spawn *spawn);
    /* A rank aborts its job, or with is_whole_job 0 itself alone: the owner ends the processes. */
    void (*abort)(pmi_server *server, void *context, uint32_t job, int rank, int code, int is_whole_job,
                  const char *message);
    /* The connection of a rank has ended; unless it is finalized, the rank has failed or never used PMI. */
    void (*disconnected)(pmi_server *server, void *context, uint32_t job, int rank, int is_finalized);
    /* A fence of the job can never end, because this rank is gone. */
    void (*fence_stuck)(pmi_server *server, void *context, uint32_t job, int rank);
    /* A rank requests something about a published name. */
    void (*name)(pmi_server *server, void *context, const pmi_server_name *name);
} pmi_server_callbacks;

/* A job. Zero is a valid value of every member but the name, which is at most 255 bytes long and unique. */
typedef struct pmi_server_job {
    const char *name;
    int universe_size;       /* Largest number of processes of the launch; 0 for the number of ranks. */
    const int *appnums;      /* Number of the program of each rank, or null: all are 0. */
    const uint32_t *spawner; /* Job that has spawned this one, or null. */
    int preput_count;        /* Values that the ranks find in their key-value space. */
    const pmi_server_pair *preputs;
} pmi_server_job;

/* Makes a server without jobs. Callbacks get the context. */
int pmi_server_new(const pmi_server_callbacks *callbacks, void *context, pmi_server **server);

/* Closes all connections. */
int pmi_server_free(pmi_server *server);

/* Adds a job with this number of ranks. The descriptors belong to the server from then on: they become
 * non-blocking, and they are closed if the call fails. */
int pmi_server_add_job(pmi_server *server, const pmi_server_job *job, int ranks, const int fds[],
                       uint32_t *id);

/* Removes a job and the names that it has published, and closes the connections of its ranks. */
int pmi_server_remove_job(pmi_server *server, uint32_t job);

/* Answers a spawn with the job that was added for it, or with a null pointer: it has failed. */
int pmi_server_answer_spawn(pmi_server *server, uint64_t spawn, const uint32_t *job);

/* Answers a request about a name: with PMI_SERVER_SUCCESS and, for a lookup, the port; with PMI_SERVER_FAIL for
 * a service that is not published, or is published already; with PMI_SERVER_ERR_NOMEM without room for it. */
int pmi_server_answer_name(pmi_server *server, uint64_t name, int code, const char *port);

/* Records that the process of a rank has terminated, after what it has sent was served. */
int pmi_server_rank_exited(pmi_server *server, uint32_t job, int rank);

/* The descriptor for the event loop of the owner, which does not close it. */
int pmi_server_fd(pmi_server *server, int *fd);

/* Number of ranks whose connection is open. */
int pmi_server_connected(pmi_server *server, int *ranks);

/* Serves all ranks that have sent something, without waiting. */
int pmi_server_step(pmi_server *server);

/* Serves the ranks of all jobs until their connections have ended, those of spawned jobs included. */
int pmi_server_run(pmi_server *server);

/* Copies the reason of the last call of the server that failed. */
int pmi_server_error(pmi_server *server, char text[], int size);

#ifdef __cplusplus
}
#endif

#endif
