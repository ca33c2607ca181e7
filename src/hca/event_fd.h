// SPDX-License-Identifier: MIT
/* Descriptors that count the events of a queue: eventfds in semaphore mode, readable while events
 * are queued. List and count change together under the queue's mutex (not a spin lock, since system
 * calls change the count), so a program that finds the descriptor readable finds an event. */
#pragma once

int event_fd_open(const char *call, int *out); /* @call names the caller in the reason */
void event_fd_up(int fd); /* one event more */
void event_fd_down(int fd); /* one event less; under the mutex; does not wait for one */
/* Reads a count if there is one. EAGAIN: there is none; another errno: it cannot be told. */
int event_fd_try(int fd);
/* The same where preadv2() cannot tell (Linux before 5.8, qemu-user, a filter of system calls). It
 * waits for a count if another thread reads the one that it has seen. */
int event_fd_look_and_read(int fd);
/* Sleeps until the count is not 0, by read(2), which decides about EINTR, restarting and EAGAIN.
 * The count is put back: the thread that takes the event counts it down, under the mutex. */
int event_fd_await(int fd);
