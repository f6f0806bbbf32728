//! The examples at the end of `--help`, verb by verb.

pub const ALL: &str = "Examples:
  optloop init kernels && cd kernels     create a project
  optloop start --budget 10m             optimise its workload for ten minutes
  optloop report                         print the results
  optloop help start                     explain a verb";

pub const INIT: &str = "Examples:
  optloop init                  in the current folder
  optloop init kernels          in the folder `kernels`, which is created";

pub const ADD: &str = "Examples:
  optloop add softmax.cu --oracle softmax.py --shape x=R,N --shape y=R,N --case R=8192,N=8192 --grid R --block THREADS --independent R
  optloop add my-gemm.cu --op gemm --case M=4096,N=4096,K=4096 --grid 'ceil_div(N,TILE),ceil_div(M,TILE)' --block TILE,TILE

`optloop docs workload` explains the oracle and the files that are written.";

pub const IMPORT: &str = "Examples:
  optloop import convolution-t1.json --oracle convolution.py
  optloop import vector_add.py --trust
  optloop import rmsnorm.json --workloads rmsnorm.jsonl --kernel-file rmsnorm.cu --grid batch --block THREADS

`optloop docs import` explains what is understood.";

pub const START: &str = "Examples:
  optloop start --budget 10m
  optloop start --workload gemm-fp16 --budget 4h --max-cost 5.00
  optloop start --case b8h8s128 --case b1h1s512 --family attention-split-kv
  optloop start --device virtual --budget 2m --seed 1
  optloop start --budget 1h --proposer agent:my-agent --agent-env MY_API_KEY --agent-network";

pub const RESUME: &str = "Examples:
  optloop resume                the latest unfinished session
  optloop resume 12";

pub const WORKER: &str = "Examples:
  optloop worker --nats nats://HOST:4222 --device cuda:0 --trust KEY
  optloop worker --nats tls://HOST:4222 --nats-credentials worker.creds --device cuda:1 --trust KEY";

pub const WORKERS: &str = "Examples:
  optloop workers --key         this user's public key
  optloop workers --nats nats://HOST:4222
  optloop workers --nats nats://HOST:4222 --json";

pub const MCP: &str = "Examples:
  optloop mcp --budget 30m --case b1h1s512 --device virtual
  claude mcp add optloop -- optloop --project ~/kernels mcp --budget 1h --max-cost 5.00

A client starts it. `optloop docs agents` explains the tools.";

pub const SKILL: &str = "Examples:
  optloop skill                 nothing is overwritten

`optloop docs agents` explains the files.";

pub const BENCH: &str = "Examples:
  optloop bench attention-fp16-d64/b8h8s128 --repeat 10
  optloop bench 17 --against baseline
  optloop bench 17 --against 12 --claim one-pass --predict 1.05..1.3
  optloop bench attention-scalar:BR=64,BC=32 --workload attention-fp16-d64 --case b1h1s64 --device virtual";

pub const DIAGNOSE: &str = "Examples:
  optloop diagnose attention-scalar --case b8h8s128
  optloop diagnose attention-fp16-d64/b8h8s128 --json";

pub const REPRODUCE: &str = "Examples:
  optloop reproduce HEAD
  optloop reproduce 0123456789";

pub const REMEASURE: &str = "Examples:
  optloop remeasure attention-fp16-d64";

pub const EXPORT: &str = "Examples:
  optloop export attention-fp16-d64 --to torch
  optloop export attention-fp16-d64/b8h8s128 --to python --output vendor/attention
  optloop export gemm-fp16 --to c";

pub const AUDIT: &str = "Examples:
  optloop audit
  optloop audit --device virtual";

pub const COMPILE: &str = "Examples:
  optloop compile --workload attention-fp16-d64 --family attention-mma
  optloop compile --arch sm_80 --random 20 --json";

pub const REPORT: &str = "Examples:
  optloop report
  optloop report 12 --format json";

pub const SERVE: &str = "Examples:
  optloop serve                                     the project of this folder, on http://127.0.0.1:7878
  optloop serve kernels attention=../attention      two projects
  optloop serve --new-token alice --scope run       make a token
  optloop serve --nats nats://HOST:4222             workers on other machines screen, too
  optloop serve --listen 0.0.0.0:7878 --tokens tokens --tls-cert cert.pem --tls-key key.pem

`optloop docs service` explains the queue, the API and how to let others in.";

pub const SUBMIT: &str = "Examples:
  optloop submit --workload gemm-fp16 --budget 4h --max-cost 5.00
  optloop submit --on attention --budget 10m --priority 1 --follow";

pub const QUEUE: &str = "Examples:
  optloop queue
  optloop queue --open --json";

pub const TAIL: &str = "Examples:
  optloop tail 12
  optloop tail 12 --json";

pub const CANCEL: &str = "Examples:
  optloop cancel 12                   drop it, or end its session now
  optloop cancel 12 --stop            end its session after the iteration in flight
  optloop cancel 12 --resume          queue it again";

pub const DOCS: &str = "Examples:
  optloop docs
  optloop docs workload";

pub const CHECK: &str = "Examples:
  optloop check                                     what has changed since it was right
  optloop check --all                               everything in the project
  optloop check layer-norm --device virtual         a workload or a family, without a GPU
  optloop check layer-norm:THREADS=64 --case large  one configuration
  optloop check layer-norm --json --trust";

pub const LIST: &str = "Examples:
  optloop list
  optloop list attention-fp16-d64                   which families take which case, and why others do not
  optloop list attention-split-kv --csv >cases.csv  the cases of a family";

pub const SESSIONS: &str = "Examples:
  optloop sessions
  optloop sessions --workload gemm-fp16 --sort best
  optloop sessions --all
  optloop sessions --since 7d --csv >week.csv";

pub const HISTORY: &str = "Examples:
  optloop history                                   the latest session
  optloop history 3 --case b8h8s128 --sort time     the fastest variants of a case
  optloop history --verdict improved --reverse      the latest improvements first
  optloop history --all --since 7d --csv >week.csv  the past week, all sessions
  optloop history --by parameter                    which parameters paid off

`optloop docs history` has more questions to ask the database.";

pub const SHOW: &str = "Examples:
  optloop show 17
  optloop show 17 --case b8h8s128 --brief
  optloop show 17 --sass 40..52
  optloop show 17 --json";

pub const CALLS: &str = "Examples:
  optloop calls                 the calls of the latest session, with their cost
  optloop calls 17              what was sent in call 17, and what came back
  optloop calls --session 3 --csv";

pub const SIMULATE: &str = "Examples:
  optloop simulate gemm.json.gz                       all proposers, 50 times each
  optloop simulate gemm.json.gz conv_T4.json --proposer local --repeats 10
  optloop simulate gemm.json.gz --csv";

pub const SPACE: &str = "Examples:
  optloop space export 3 --format t4 > session-3.json
  optloop space export 3 --format t1 > session-3_T1.json    parameters and conditions
  optloop space convert gemm.json.gz --format t4 > gemm_T4.json";

pub const COMPARE: &str = "Examples:
  optloop compare 17 attention-fp16-d64/b8h8s128
  optloop compare baseline:3/b1h1s128 17";

pub const BACKUP: &str = "Examples:
  optloop backup /backups/optloop-2026-11-20.db";

pub const DOCTOR: &str = "Examples:
  optloop doctor
  optloop doctor --measure      also measure the GPU's peaks";

pub const TRUST: &str = "Examples:
  optloop trust                 show what the project chooses to run, and ask
  optloop trust --list          show what you have trusted, in all projects";

pub const COMPLETIONS: &str = "Examples:
  optloop completions bash >~/.local/share/bash-completion/completions/optloop
  optloop completions zsh >~/.zfunc/_optloop
  optloop completions fish >~/.config/fish/completions/optloop.fish";

pub const MAN: &str = "Examples:
  optloop man start | man -l -
  optloop man ~/.local/share/man/man1";
