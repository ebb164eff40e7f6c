#!/usr/bin/env bash
# dptrain opens no port and speaks no protocol of its own (SECURITY.md): no source file makes or uses a socket.
#
# Usage: tests/checks/check_sockets.sh ROOT
# Prints FILE:LINE: sentence for each violation; exits 1 if there is one.
set -euo pipefail
cd "${1:?check_sockets: needs the root folder of the tree}"

# Matches the system's calls, as ::connect(...) or connect(...), or by their numbers. Members and functions of a namespace may have
# such a name. bind(...) without :: is a function of ours.
calls='socket|socketpair|listen|accept4?|connect'
headers='sys/socket|sys/un|netinet/|arpa/inet|netdb|linux/(netlink|if_packet|vm_sockets)|asio|curl/'
hits=$(find lib apps \( -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 -r grep -HnE "(^|[^A-Za-z0-9_.>:])(($calls)|::($calls|bind))[[:space:]]*\(|SYS_($calls|bind)\b|^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]([^>\"]*/)?($headers)" || true)
[[ -z $hits ]] && exit 0
sed -E 's|^([^:]*:[0-9]+):.*|\1: uses a socket; processes tell each other what they have to by MPI and NCCL alone|' <<< "$hits"
exit 1
