/* Makes the compiler write the PSI headers' types into debug information, for dump.py.
   The headers expect these short names from the server's global header. */
#define MY_GLOBAL_INCLUDED
#define HAVE_PSI_INTERFACE
#define C_MODE_START
#define C_MODE_END
#define MYSQL_PLUGIN_IMPORT
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <time.h>
typedef unsigned int uint;
typedef unsigned long ulong;
typedef unsigned long long ulonglong;
typedef unsigned char uchar;
typedef char my_bool;
typedef int File;
typedef int my_socket;
typedef unsigned int PSI_memory_key;
#include "mysql/psi/psi.h"
struct PSI_v1 probe_vtable;
struct PSI_bootstrap probe_bootstrap;
