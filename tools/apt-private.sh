# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# apt beside the system's: fetches packages and sources of Debian into a folder of our own, from the mirrors and with the keys
# that this machine's apt is configured with. Nothing is installed and nothing outside the folder is written. To be sourced:
#
#         apt_private_open FOLDER [RELEASE [COMPONENT [ARCHITECTURE]]]    default: this machine's release, main, its architecture
#         apt_private download libc6 busybox-static                       into FOLDER/debs
#
# apt_private_sources=1 beforehand: `apt_private source --download-only NAME` is possible, too.
# Suites are those of the system's own entries, but for the release; third parties' repositories have other suite names and drop
# out. Errors: status 77 of apt_private_open where this machine cannot do it, with the reason on standard error.

apt_private_limit=${apt_private_limit:-120} # seconds for each step that talks to a mirror

# One "URI suite signed-by" line for each of the distribution's own suites, from both formats that apt reads.
apt_private_entries() {
        local codename=$1 file
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
                [ -r "$file" ] || continue
                awk -v codename="$codename" '
                        $1 == "deb" {
                                key = "-"
                                at = 2
                                if ($2 ~ /^\[/) {
                                        for (; at <= NF; at++) {
                                                option = $at
                                                gsub(/[][]/, "", option)
                                                if (option ~ /^signed-by=/)
                                                        key = substr(option, 11)
                                                if ($at ~ /\]$/)
                                                        break
                                        }
                                        at++
                                }
                                suite = $(at + 1)
                                if (suite == codename || suite == codename "-updates" || suite == codename "-security")
                                        print $at, suite, key
                        }' "$file"
        done
        for file in /etc/apt/sources.list.d/*.sources; do
                [ -r "$file" ] || continue
                awk -v codename="$codename" '
                        function flush_stanza(    i, j, n, m, uri, suite) {
                                n = split(field["uris"], uri, /[ \t]+/)
                                m = split(field["suites"], suite, /[ \t]+/)
                                if (field["types"] ~ /(^|[ \t])deb([ \t]|$)/ && tolower(field["enabled"]) != "no")
                                        for (i = 1; i <= n; i++)
                                                for (j = 1; j <= m; j++)
                                                        if (suite[j] == codename || suite[j] == codename "-updates" ||
                                                            suite[j] == codename "-security")
                                                                print uri[i], suite[j], \
                                                                        (field["signed-by"] ~ /^\// ? field["signed-by"] : "-")
                                delete field
                        }
                        /^#/ { next }
                        /^[ \t]*$/ { flush_stanza(); next }
                        /^[A-Za-z-]+:/ {
                                name = tolower(substr($0, 1, index($0, ":") - 1))
                                field[name] = substr($0, index($0, ":") + 1)
                                sub(/^[ \t]+/, "", field[name])
                        }
                        END { flush_stanza() }' "$file"
        done
}

apt_private_codename() {
        # shellcheck source=/dev/null
        (. /etc/os-release && [ "$ID" = debian ] && echo "${VERSION_CODENAME:-}")
}

# Each call makes the folder anew, but for the lists that were fetched.
apt_private_open() {
        local codename release component architecture entries tool uri suite key option
        apt_private_folder=$1
        codename=$(apt_private_codename) || { echo "apt-private: this machine is not Debian" >&2; return 77; }
        release=${2:-$codename}
        component=${3:-main}
        for tool in apt-get dpkg dpkg-deb; do
                command -v "$tool" >/dev/null || { echo "apt-private: this machine has no $tool" >&2; return 77; }
        done
        architecture=${4:-$(dpkg --print-architecture)}
        entries=$(apt_private_entries "$codename")
        [ -n "$entries" ] || { echo "apt-private: apt has no entry for Debian $codename on this machine" >&2; return 77; }

        rm -rf "$apt_private_folder/debs"
        mkdir -p "$apt_private_folder"/{lists,cache,debs}/partial
        while read -r uri suite key; do
                [ "$key" = - ] && option= || option=" [signed-by=$key]"
                echo "deb$option $uri ${suite/#$codename/$release} $component"
                [ -z "${apt_private_sources:-}" ] || echo "deb-src$option $uri ${suite/#$codename/$release} $component"
        done <<<"$entries" | sort -u >"$apt_private_folder/sources.list"
        # What is installed here must not matter.
        apt_private_options=(
                -o "Dir::Etc::sourcelist=$apt_private_folder/sources.list" -o Dir::Etc::sourceparts=-
                -o "Dir::State=$apt_private_folder" -o "Dir::State::lists=$apt_private_folder/lists"
                -o Dir::State::status=/dev/null
                -o "Dir::Cache=$apt_private_folder/cache" -o "Dir::Cache::archives=$apt_private_folder/debs"
                -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
                -o APT::Sandbox::User= -o Acquire::Retries=2 -o Acquire::http::Timeout=20 -o Acquire::Languages=none
                -o APT::Update::Post-Invoke= -o APT::Update::Post-Invoke-Success= -o Debug::NoLocking=1
                -o APT::Update::Error-Mode=any
        )
        timeout "$apt_private_limit" apt-get "${apt_private_options[@]}" -qq update || {
                echo "apt-private: the package lists of Debian $release $component cannot be fetched" >&2
                return 77
        }
}

# apt-get in the folder of debs, where `download` and `source` leave what they fetch.
apt_private() {
        (cd "$apt_private_folder/debs" && timeout "$apt_private_limit" apt-get "${apt_private_options[@]}" -qq "$@")
}
