// SPDX-License-Identifier: MIT
/* Lines for the person at the terminal, on stderr: "softhca: <text>", one write(2) each, cut at 512
 * bytes. SOFTHCA_LOG=error|warn|info|debug (default warn) is read at the first line. Allocates
 * nothing, keeps errno. Why a call was refused is not logged here: obs/explain.h records it. */
#pragma once
#include "util/barrier.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

bool log_wants(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The level that a value of SOFTHCA_LOG means; NULL and unknown words mean warn. */
enum log_level log_level_of(const char *word);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* At most one line from this place in the code, in this process. */
#define log_once(level, ...)                                                                       \
	do {                                                                                       \
		static uint8_t once_;                                                              \
		if (!load_relaxed(&once_) && !xchg_acq_rel(&once_, 1))                             \
			log_line(level, __VA_ARGS__);                                              \
	} while (0)
#define log_error_once(...) log_once(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn_once(...)  log_once(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info_once(...)  log_once(LOG_LEVEL_INFO, __VA_ARGS__)
