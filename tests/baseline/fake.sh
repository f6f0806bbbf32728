#!/bin/sh
# A baseline program for tests, in what every system has. It executes no kernel: its times are canned and vary a little.
# The case must have one key: then the values are what attention computes, and the program can copy the right output.
# Its argument says what goes wrong.
fault=$1
turn=0

# Prints the string or number that belongs to a key of the request.
value() {
    rest=${line#*"\"$1\":"}
    rest=${rest#\"}
    printf '%s' "${rest%%[\",\}]*}"
}

while read -r line; do
    case $line in
    *'"request":"hello"'*)
        case $fault in
        silent) continue ;;
        garbage) echo 'Hello there!' ;;
        old) echo '{"protocol": 1, "versions": {"torch": "2.11"}}' ;;
        refuses) printf '%s\n' '{"error": "there is no GPU number 7\nat line 3"}' ;;
        nameless) echo '{"protocol": 2}' ;;
        sleeps)
            # Neither of them looks at its input.
            sleep 1000 &
            echo "$$ $!" >told
            wait ;;
        escapes)
            # It has a session and a parent of its own.
            (setsid sleep 1000 & echo "$!" >escaped)
            # The input has no end for as long as this writer is there.
            exec 9<>"/proc/$$/fd/0"
            sleep 1000 &
            echo "$$ $! $(cat escaped)" >told
            wait ;;
        escapes-and-dies)
            (setsid sleep 1000 & echo "$!" >escaped)
            exit 1 ;;
        kills-its-guard)
            (setsid sleep 1000 & echo "$!" >escaped)
            kill -KILL "$PPID"
            echo "$$ $(cat escaped)" >told
            wait ;;
        dies-at-once) echo 'No module named torch' >&2; exit 1 ;;
        late)
            # Until someone writes to the pipe.
            read -r _ <go
            echo '{"protocol": 2, "device": "fake device (no kernel was executed)", "time_source": "modelled"}' ;;
        compiles) echo '{"protocol": 2, "device": "fake", "time_source": "modelled", "compiles": true}' ;;
        *) echo '{"protocol": 2, "device": "fake device (no kernel was executed)", "time_source": "modelled", "versions": {"sh": "any"}}' ;;
        esac ;;
    *'"request":"compile"'*)
        echo "compiled for $(value Sk) keys" >>sampled
        echo '{}' ;;
    *'"request":"prepare"'*)
        if [ "$fault" = twins ]; then
            echo '{"backends": [{"name": "a", "error": "no"}, {"name": "a", "error": "no"}]}'
            continue
        fi
        folder=$(value output_folder)
        cp "$(value v)" "$folder/right"
        cp "$(value k)" "$folder/wrong"
        echo short >"$folder/short"
        printf '{"backends": ['
        printf '{"name": "slow", "launches_per_sample": 20, "eager_ns": 61000, "output": "right",'
        printf '"kernels": [{"name": "one\\u001b[31m", "grid": [2, 3, 1], "block": [64, 1, 1]}]},'
        printf '{"name": "quick", "launches_per_sample": 40, "kernels": [{"name": "none", "grid": [0, 1, 1], "block": [1, 1, 1]}]},'
        printf '{"name": "broken", "error": "its scores would take 32 GiB"},'
        printf '{"name": "wrong", "launches_per_sample": 40, "output": "wrong"},'
        printf '{"name": "short", "launches_per_sample": 40, "output": "short"},'
        printf '{"name": "missing", "launches_per_sample": 40, "output": "nothing"},'
        printf '{"name": "elsewhere", "launches_per_sample": 40, "output": "../right"},'
        printf '{"name": "countless"},'
        printf '{"name": "timeless", "launches_per_sample": 40, "eager_ns": -1}]}\n' ;;
    *'"request":"sample"'*)
        turn=$((turn + 1))
        backend=$(value backend)
        samples=$(value samples)
        case $fault in
        dies) [ $turn -lt 4 ] || { echo 'warming up' >&2; echo 'CUDA out of memory' >&2; exit 1; } ;;
        hangs) continue ;;
        negative) echo '{"samples_ns": [-1.5]}'; continue ;;
        zero) echo '{"samples_ns": [0]}'; continue ;;
        nan) echo '{"samples_ns": [NaN]}'; continue ;;
        few) echo '{"samples_ns": [5000.5]}'; continue ;;
        quick-fails) [ "$backend" != quick ] || { echo '{"error": "a launch failed"}'; continue; } ;;
        esac
        echo "$backend $samples" >>sampled
        base=9000
        [ "$backend" != quick ] || base=5000
        times=
        while [ "$samples" -gt 0 ]; do
            times="$times, $((base + (samples * 7 + turn * 3) % 11)).5"
            samples=$((samples - 1))
        done
        echo "{\"samples_ns\": [${times#, }]}" ;;
    *'"request":"release"'*)
        echo released >>sampled
        echo '{}' ;;
    esac
done
