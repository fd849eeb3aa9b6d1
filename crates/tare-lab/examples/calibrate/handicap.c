/*
 * A handicap of known size inside a server: two functions for SQL, built by `make lab-calibrate`.
 *
 *   SELECT lab_handicap(place, kind, nanoseconds)   switches to a handicap of that kind; places tell handicaps apart
 *   DO lab_pay()                                    what every transaction calls; it owes so many nanoseconds
 *
 * What is owed is burned as CPU time by whom and when the kind says, and measured where it is burned, by the thread's own clock.
 * Whenever the handicap is switched, a line goes to the file that LAB_HANDICAP_LOG names: the place, how often was paid, and
 * how many nanoseconds were burned. That is the truth.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum kind {
    NONE,
    CONSTANT, /* in every transaction, by its own thread */
    ROUNDS,   /* five times as much in one of five turns */
    SECOND,   /* by a thread of the server, all at once after every second of load */
    DELAYED,  /* by a thread of the server, when there has been no transaction for a millisecond */
    DRIFTING, /* in every transaction: from nothing to double and back in 40 seconds */
};

enum { PLACES = 64, STEP = 50000, MILLISECOND = 1000000, TURN = 18 * MILLISECOND, SECONDS = 1000000000 };

/* Guards everything that is not atomic; held while the server's thread burns a step. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static int started, output = -1;
static long load_since_burst[PLACES], to_burn[PLACES];
static unsigned long random_state;

static _Atomic int place, kind, is_dear, switching;
static _Atomic long amount, payments, burned, first, last, owed[PLACES];

static long now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * (long)SECONDS + time.tv_nsec;
}

static void *burner(void *nothing) {
    long mark = 0;
    int watched = -1;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (kind != SECOND && kind != DELAYED) {
            watched = -1;
            pthread_cond_wait(&wanted, &lock);
        }
        if (watched != place) {
            watched = place;
            mark = now(CLOCK_THREAD_CPUTIME_ID);
        }
        long time = now(CLOCK_MONOTONIC);
        if (kind == DELAYED && time - last > MILLISECOND)
            to_burn[place] = owed[place];
        if (kind == SECOND && load_since_burst[place] + (last - first) >= SECONDS) {
            load_since_burst[place] = first - last;
            to_burn[place] = owed[place];
        }
        int burns = to_burn[place] > 0;
        long until = mark + (to_burn[place] < STEP ? to_burn[place] : STEP), here;
        do
            here = now(CLOCK_THREAD_CPUTIME_ID);
        while (burns && here < until);
        /* What watching takes is part of what is burned. */
        burned += here - mark;
        owed[place] -= here - mark;
        to_burn[place] -= here - mark;
        mark = here;
        /* Watching costs, too: not before the turn may be over. */
        long left = first + TURN - time;
        int rest = kind == SECOND ? 10 * MILLISECOND : left > MILLISECOND ? left : MILLISECOND;
        pthread_mutex_unlock(&lock);
        if (!burns)
            usleep(rest / 1000);
        else if (switching)
            usleep(100); /* who unlocks and locks again would win */
        pthread_mutex_lock(&lock);
    }
    return nothing;
}

static void start(void) {
    pthread_t thread;
    const char *path = getenv("LAB_HANDICAP_LOG");
    if (path)
        output = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    random_state = now(CLOCK_REALTIME) | 1;
    if (pthread_create(&thread, NULL, burner, NULL) == 0)
        pthread_detach(thread);
    started = 1;
}

/* As the server declares it; what follows the values is not used. */
struct arguments {
    unsigned count;
    int *types;
    char **values;
};

enum { INTEGER_RESULT = 2 };

char lab_handicap_init(void *state, struct arguments *arguments, char *message) {
    if (arguments->count == 3) {
        for (int i = 0; i < 3; i++)
            arguments->types[i] = INTEGER_RESULT; /* the server converts to it */
        return 0;
    }
    snprintf(message, 80, "place, kind and nanoseconds are needed");
    return 1;
}

long long lab_handicap(void *state, struct arguments *arguments, char *is_null, char *error) {
    long given[3];
    for (int i = 0; i < 3; i++)
        given[i] = arguments->values[i] ? *(long long *)arguments->values[i] : 0;
    if (given[0] < 0 || given[0] >= PLACES) {
        *error = 1;
        return 0;
    }
    switching = 1;
    pthread_mutex_lock(&lock);
    switching = 0;
    if (!started)
        start();
    char line[96];
    int length = snprintf(line, sizeof line, "%d %ld %ld\n", (int)place, (long)payments, (long)burned);
    if (output >= 0 && payments > 0 && write(output, line, length) != length)
        *error = 1;
    load_since_burst[place] += last - first;
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    place = given[0];
    kind = given[1];
    amount = given[2];
    is_dear = random_state / 8 % 5 == 0;
    payments = burned = 0;
    first = last = now(CLOCK_MONOTONIC);
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    return 0;
}

char lab_pay_init(void *state, struct arguments *arguments, char *message) {
    return 0;
}

long long lab_pay(void *state, struct arguments *arguments, char *is_null, char *error) {
    /* Both clocks are read whatever the kind, so that this costs the base, too. */
    long begun = now(CLOCK_THREAD_CPUTIME_ID), time = now(CLOCK_MONOTONIC), due = 0;
    payments++;
    last = time;
    switch (kind) {
    case CONSTANT:
        due = amount;
        break;
    case ROUNDS:
        due = is_dear ? 5 * amount : 0;
        break;
    case DRIFTING: {
        long phase = time / MILLISECOND % 40000;
        due = amount * (phase < 20000 ? phase : 40000 - phase) / 10000;
        break;
    }
    case SECOND:
    case DELAYED:
        owed[place] += amount;
        break;
    }
    if (due > 0) {
        long here;
        do
            here = now(CLOCK_THREAD_CPUTIME_ID);
        while (here - begun < due);
        burned += here - begun;
    }
    return 0;
}
