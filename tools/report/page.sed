# SPDX-License-Identifier: MIT
# Each line of the page becomes a string of C.
s/[\\"]/\\&/g
s/.*/	"&\\n",/
1i\
static const char *const page_html[] = {
$a\
};
