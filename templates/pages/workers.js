// The workers of the service's fleet.

import { get } from "./api.js";
import { table } from "./dom.js";
import { duration } from "./format.js";
import { live } from "./live.js";

const COLUMNS = [
  { title: "host", cell: (row) => row.host },
  { title: "device", cell: (row) => row.device },
  { title: "model", cell: (row) => row.model },
  { title: "state", cell: (row) => row.state },
  { title: "jobs", cell: (row) => row.jobs, figures: true },
  { title: "dropped messages", cell: (row) => row.dropped, figures: true },
  { title: "up", cell: (row) => duration(row.up_s), figures: true },
  { title: "last seen", cell: (row) => `${duration(row.seen_s)} ago`, figures: true },
  { title: "usable", cell: (row) => row.usable },
  { title: "driver", cell: (row) => row.driver },
  { title: "key", cell: (row) => row.key },
];

const NONE = "No worker is there. Those of a NATS server are shown if the service was started with `optloop serve --nats URL`.";

const listed = (rows) => table("GPUs of other machines that screen for all sessions", COLUMNS, rows, NONE);

export async function workers(parts, query, signal) {
  const load = () => get("/workers", signal);
  return { title: "Workers", elements: [live(await load(), load, listed, signal)] };
}
