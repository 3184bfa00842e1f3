/**
 * Plays `withLease` in durable functions, on AWS's own local runner, which it starts at this port, and the functions of a local stack.
 * Runner and stack are in Python.
 *
 *     python3 -m venv VENV && . VENV/bin/activate    # Python 3.11 or later
 *     pip install aws-durable-execution-sdk-python==3.0.0 aws-durable-execution-sdk-python-testing==1.4.0 leasehold-local
 *     cp clients/typescript/*.ts clients/typescript/package*.json DIRECTORY && cd DIRECTORY && npm ci --ignore-scripts
 *     leasehold-local exec --no-engine --sweep-every 1 --parameter LookSeconds=1 --parameter ReapGraceSeconds=0 \
 *       --durable-runner http://127.0.0.1:5077 -- node durable.test.ts 5077    # Node 22.18 or later
 *
 * Prints a line for each scene that holds.
 */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspect } from "node:util";
import { LambdaClient } from "@aws-sdk/client-lambda";
import { withDurableExecution, type DurableContext } from "@aws/durable-execution-sdk-js";
import {
  LeaseError, Leasehold, type Details, type DurableLease, type Handle,
  type Invoked, type Invoker, type Lease,
} from "./leasehold.ts";

const NAMES = { acquire: "AcquireFunction", extend: "ExtendFunction", release: "ReleaseFunction" };
const ARN = /^arn:aws:lambda:[a-z0-9-]+:\d{12}:function:[\w-]+:(\$LATEST|\d+)\/durable-execution\/[\w-]+\/[\w-]+$/;
const { env } = process;

const sleep = (milliseconds: number) => new Promise<void>((done) => setTimeout(done, milliseconds));
const encoded = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));
const decoded = (bytes: Uint8Array | undefined) => JSON.parse(new TextDecoder().decode(bytes)) as Details;

async function until<T>(condition: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (const ends = Date.now() + 30_000; Date.now() < ends; await sleep(50)) {
    const found = await condition();
    if (found) return found;
  }
  throw new Error("it does not happen");
}

/** The functions of a stack, invoked by fetch. */
class Stack implements Invoker {
  #url: string;
  constructor(url: string) {
    this.#url = url;
  }
  async invoke({ FunctionName, Payload }: { FunctionName: string; Payload: Uint8Array }): Promise<Invoked> {
    const url = `${this.#url}/2015-03-31/functions/${FunctionName}/invocations`;
    const headers = { "x-amz-security-token": env.AWS_SESSION_TOKEN ?? "" };
    const answer = await fetch(url, { method: "POST", headers, body: new TextDecoder().decode(Payload) });
    const failed = answer.headers.get("x-amz-function-error");
    const body = new Uint8Array(await answer.arrayBuffer());
    return failed === null ? { Payload: body } : { FunctionError: failed, Payload: body };
  }
}

async function freePort(): Promise<string> {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address() as AddressInfo;
  free.close();
  return String(port);
}

/** AWS's local runner of durable functions, and its Lambda API. */
class Runner {
  url: string;
  stop: () => void;
  constructor(url: string, stop = () => {}) {
    this.url = url;
    this.stop = stop;
  }
  static async started(port: string, ...options: string[]): Promise<Runner> {
    const where = ["start-server", "--host", "127.0.0.1", "--port", port, "--log-level", "CRITICAL", ...options];
    const program = spawn("dex-local-runner", where, { stdio: ["ignore", "ignore", "inherit"] });
    const runner = new Runner(`http://127.0.0.1:${port}`, () => program.kill("SIGKILL"));
    process.on("exit", runner.stop);
    await until(() => fetch(`${runner.url}/health`).then((answer) => answer.ok, () => false));
    return runner;
  }
  async call(method: string, kind: string, id: string, operation = "", body?: object): Promise<Details> {
    const url = `${this.url}/2025-12-01/${kind}/${encodeURIComponent(id)}/${operation}`;
    const answer = await fetch(url, { method, ...(body && { body: JSON.stringify(body) }) });
    const text = await answer.text();
    assert(answer.ok, `${operation}: ${text}`);
    return (text === "" ? {} : JSON.parse(text)) as Details;
  }
  async start(name: string): Promise<string> {
    const event = {
      AccountId: "123456789012", FunctionName: name, FunctionQualifier: "$LATEST", ExecutionName: name, ExecutionTimeoutSeconds: 3600,
      ExecutionRetentionPeriodDays: 1, Input: "{}", LambdaEndpoint: ENDPOINT,
    };
    const answer = await fetch(`${this.url}/start-durable-execution`, { method: "POST", body: JSON.stringify(event) });
    return ((await answer.json()) as { ExecutionArn: string }).ExecutionArn;
  }
  execution(arn: string): Promise<Details> {
    return this.call("GET", "durable-executions", arn);
  }
}

/** What goes wrong with a call: before the function runs, in place of its run, or after it. */
type Fault = ["never" | "after", () => Promise<Invoked | void>];
const fine: Fault = ["after", async () => {}];
const fails = (message: string, more: object) => () => Promise.reject(Object.assign(new Error(message), more));
const lost = (when: Fault[0]): Fault => [when, fails("socket hang up", { code: "ECONNRESET" })];
const denied: Fault = ["never", fails("not allowed", { name: "AccessDeniedException", $metadata: { httpStatusCode: 403 } })];

/** A durable function that works under the lease of its own key, what it sends to the stack, and what it does. */
class Section implements Invoker {
  name = `typescript-${randomUUID().slice(0, 8)}`;
  key = this.name;
  sent: [string, Details][] = [];
  done: unknown[] = [];
  faults: Fault[] = [];
  leases = new Leasehold(this, { ...NAMES, holder: "nobody", attempts: 1 });
  other = new Leasehold(STACK, { ...NAMES, holder: "other" });
  arn = "";
  #runner: Runner;

  constructor(handler: (section: Section, context: DurableContext) => Promise<unknown>, runner = RUNNER) {
    this.#runner = runner;
    const credentials = { accessKeyId: "local", secretAccessKey: "local" };
    const client = new LambdaClient({ endpoint: runner.url, region: "us-east-1", credentials });
    FUNCTIONS.set(this.name, withDurableExecution((_: unknown, context: DurableContext) => handler(this, context), { client }));
  }
  async invoke(input: { FunctionName: string; Payload: Uint8Array }): Promise<Invoked> {
    this.sent.push([input.FunctionName, decoded(input.Payload)]);
    this.done.push(input.FunctionName.replace("Function", "").toLowerCase());
    const [when, happens] = this.faults.shift() ?? fine;
    const answer = when === "after" ? await STACK.invoke(input) : {};
    return (await happens()) ?? answer;
  }
  async start(): Promise<this> {
    this.arn = await this.#runner.start(this.name);
    return this;
  }
  async status(): Promise<unknown> {
    return (await this.#runner.execution(this.arn)).Status;
  }
  async stop(): Promise<void> {
    await this.#runner.call("POST", "durable-executions", this.arn, "stop", {});
  }
  /** What the execution returned, or its error. */
  async ends(): Promise<unknown> {
    const ended = await until(async () => {
      const execution = await this.#runner.execution(this.arn);
      return execution.Status === "RUNNING" ? undefined : execution;
    });
    if (ended.Status === "SUCCEEDED") return JSON.parse(ended.Result as string);
    return { status: ended.Status, ...(ended.Error as Details) };
  }
  async run(): Promise<unknown> {
    return (await this.start()).ends();
  }
  count(what: string): number {
    return this.done.filter((one) => one === what).length;
  }
  withLease<T>(context: DurableContext, work: (lease: Lease) => Promise<T>, options: Partial<DurableLease> = {}): Promise<T> {
    return this.leases.withLease(context, this.key, work, { waitSeconds: 60, ...options });
  }
  async step(context: DurableContext, name: string): Promise<void> {
    await context.step(name, async () => void this.done.push(name));
  }
  /** Work that is suspended. */
  async works(context: DurableContext, lease: Lease): Promise<number> {
    await this.step(context, "first");
    await context.wait({ seconds: 1 });
    await this.step(context, "second");
    return lease.fencingToken;
  }
  /** What the function learns, also when it is replayed. */
  async refusal(context: DurableContext, options: Partial<DurableLease> = {}, work?: () => Promise<void>): Promise<unknown> {
    const never = () => assert.fail("it has no lease");
    const learned = await this.withLease(context, work ?? never, options).then(() => undefined, (error: unknown) => {
      const { constructor, message } = error as Error;
      return [constructor.name, message, error instanceof LeaseError ? error.details : null];
    });
    this.done.push(learned);
    await context.wait({ seconds: 1 });
    return learned;
  }
  /** What it learned, which a replay has not changed. */
  async learns(): Promise<[string, string, Details]> {
    const told = (await this.ends()) as [string, string, Details];
    const seen = this.done.filter((one) => Array.isArray(one));
    assert(seen.length >= 2, inspect([told, seen]));
    for (const one of seen) assert.deepEqual(one, told);
    return told;
  }
  async isFree(waitSeconds = 0): Promise<void> {
    await (await this.other.acquire({ key: this.key, ttlSeconds: 60, waitSeconds })).release();
  }
}

/** A context of which one operation is another. */
const changed = <Name extends keyof DurableContext>(context: DurableContext, name: Name, operation: unknown) => new Proxy(context, {
  get(real, wanted) {
    if (wanted === name) return operation;
    const value = Reflect.get(real, wanted) as unknown;
    return typeof value === "function" ? value.bind(real) as unknown : value;
  },
});
/** A context whose callbacks time out after so many seconds. */
const hasty = (context: DurableContext, seconds: number, asked: unknown[]) =>
  changed(context, "createCallback", (name: string, config: { timeout: object }) => {
    asked.push(config.timeout);
    return context.createCallback(name, { ...config, timeout: { seconds } });
  });
/** A context whose steps are not repeated. */
const unrepeated = (context: DurableContext) =>
  changed(context, "step", (name: string, work: () => Promise<unknown>) =>
    context.step(name, work, { retryStrategy: () => ({ shouldRetry: false }) }));
const suspended = (section: Section, context: DurableContext) => section.withLease(context, (lease) => section.works(context, lease));

const scenes: Record<string, () => Promise<void>> = {
  async free_key_is_worked_and_released() {
    const section = new Section((section, context) =>
      section.withLease(context, async (lease) => {
        const seen = [lease.key, lease.holder, lease.grant, lease.ttlSeconds === undefined, lease.remaining() > 1e9];
        return { seen, shown: inspect(lease, { showHidden: true, depth: 9 }), secret: lease.handle().lease_id };
      }, { atLeastSeconds: 0, metadata: { order: "42" } }));
    const result = (await section.run()) as { seen: unknown[]; shown: string; secret: string };
    const [[, asked], [, released]] = section.sent as [[string, Details], [string, Details]];
    const { callback_id, holder, ...others } = asked as { callback_id: string; holder: string };
    assert.deepEqual(others, {
      key: section.key, request_id: createHash("sha256").update(callback_id).digest("hex"), wait_seconds: 60, at_least_seconds: 0,
      metadata: { order: "42" },
    });
    assert.match(holder, ARN);
    assert(holder.endsWith(section.arn), holder);
    assert.deepEqual(result.seen, [section.key, holder, "new", true, true]);
    assert.equal((released.lease as Handle).lease_id, result.secret);
    assert(!result.shown.includes(result.secret), result.shown);
    assert.deepEqual(section.done, ["acquire", "release"]);
    await section.isFree();
  },
  async lease_may_precede_acquires_answer() {
    const section = new Section(suspended);
    section.faults = [["after", () => sleep(1000)]];
    assert(Number(await section.run()) > 0);
    assert.deepEqual(section.done, ["acquire", "first", "second", "release"]);
  },
  async waiter_gets_lease_on_release() {
    const section = new Section((section, context) => {
      // What the function sets for its own callbacks is no matter here.
      context.configureSerdes({ defaultCallbackDeserializer: { deserialize: async () => assert.fail("not for a lease") } });
      return suspended(section, context);
    });
    const held = await section.other.acquire({ key: section.key, ttlSeconds: 3600 });
    await section.start();
    await until(() => section.done.length);
    await sleep(1000);
    assert.deepEqual([section.done, await section.status()], [["acquire"], "RUNNING"]);
    await held.release();
    assert(Number(await section.ends()) > held.fencingToken);
    assert.deepEqual(section.done, ["acquire", "first", "second", "release"]);
  },
  async suspended_work_keeps_its_lease() {
    const calls: number[] = [];
    const section = new Section(async (section, context) => {
      const token = await section.withLease(context, (lease) => {
        calls.push(lease.fencingToken);
        return section.works(context, lease);
      });
      await section.step(context, "after");
      await context.wait({ seconds: 1 }); // The work is called again, and its lease is released.
      return token;
    });
    const token = await section.run();
    assert(calls.length >= 3 && calls.every((one) => one === token), inspect([calls, token]));
    assert.deepEqual(section.done, ["acquire", "first", "second", "release", "after"]);
    await section.isFree();
  },
  async works_error_passes_after_release() {
    const own = new RangeError("the work's own");
    const section = new Section(async (section, context) => {
      const work = async (lease: Lease) => {
        await section.works(context, lease);
        throw own;
      };
      const error = await section.withLease(context, work).catch((error: unknown) => error);
      assert.equal(error, own);
      await context.wait({ seconds: 1 });
      throw error;
    });
    const { status, ErrorType, ErrorMessage } = (await section.run()) as Details;
    assert.deepEqual([status, ErrorType, ErrorMessage], ["FAILED", "RangeError", own.message]);
    assert.deepEqual(section.done, ["acquire", "first", "second", "release"]);
    await section.isFree();
  },
  async repeated_step_keeps_lease() {
    const repeats = (times: number) => (section: Section, context: DurableContext) =>
      section.withLease(context, () => context.step("flaky", async () => {
        section.done.push("try");
        if (section.count("try") <= 1) throw new Error("once");
        return "done";
      }, { retryStrategy: (_, attempt) => ({ shouldRetry: attempt <= times, delay: { seconds: 1 } }) }));
    const section = new Section(repeats(1));
    assert.equal(await section.run(), "done");
    assert.deepEqual(section.done, ["acquire", "try", "try", "release"]);
    const failing = new Section(repeats(0));
    const { ErrorType, ErrorMessage } = (await failing.run()) as Details;
    assert.deepEqual([ErrorType, ErrorMessage], ["StepError", "once"]);
    assert.deepEqual(failing.done, ["acquire", "try", "release"]);
  },
  async queue_tells_of_timed_out_wait() {
    const section = new Section((section, context) => section.refusal(context, { waitSeconds: 0.5 }));
    await section.other.acquire({ key: section.key, ttlSeconds: 3600 });
    await section.start();
    await until(() => section.done.length);
    await sleep(1000);
    await STACK.invoke({ FunctionName: "SweepFunction", Payload: encoded({}) });
    const [name, message, details] = await section.learns();
    assert.deepEqual([name, details.key, details.message], ["LeaseQueueTimeout", section.key, message]);
    assert.deepEqual([section.count("acquire"), section.count("release")], [1, 0]);
  },
  async only_the_latest_waits() {
    const section = new Section((section, context) => section.refusal(context));
    const held = await section.other.acquire({ key: section.key, ttlSeconds: 3600 });
    await section.start();
    await until(() => section.done.length);
    const later = new Section((later, context) => later.withLease(context, async (lease) => lease.fencingToken, { latest: true }));
    later.key = section.key;
    await later.start();
    assert.equal((await section.learns())[0], "LeaseSuperseded");
    await held.release();
    assert(Number(await later.ends()) > held.fencingToken);
    assert.deepEqual([...section.sent, ...later.sent].map(([, event]) => event.if_held), [undefined, "latest", undefined]);
  },
  async missing_answer_ends_wait() {
    const timeouts: unknown[] = [];
    const section = new Section((section, context) => section.refusal(hasty(context, 1, timeouts), { waitSeconds: 90.5 }));
    section.faults = [["never", async () => ({ Payload: encoded({ outcome: "queued", ticket: 7 }) })]];
    await section.start();
    const [name, message, details] = await section.learns();
    assert.deepEqual([name, details], ["LeaseQueueTimeout", { key: section.key }]);
    assert(message.includes(section.key), message);
    for (const timeout of timeouts) assert.deepEqual(timeout, { seconds: 91 + 600 });
  },
  async refused_acquire_is_not_repeated() {
    const section = await new Section((section, context) => section.refusal(context, { permits: 2000 })).start();
    const [name, , details] = await section.learns();
    assert.deepEqual([name, details.field, section.count("acquire")], ["LeaseInvalid", "permits", 1]);
  },
  async foreign_error_is_sdks_own() {
    const section = new Section((section, context) => section.refusal(context));
    section.faults = [denied];
    await section.start();
    const [name, message] = await section.learns();
    assert.deepEqual([name, message, section.count("acquire")], ["StepError", "not allowed", 1]);
    // Somebody else answers the callback.
    const answered = new Section((section, context) => section.refusal(context));
    await answered.other.acquire({ key: answered.key, ttlSeconds: 3600 });
    await answered.start();
    const [[, { callback_id }]] = (await until(() => answered.sent.length && answered.sent)) as [[string, Details]];
    await RUNNER.call("POST", "durable-execution-callbacks", callback_id as string, "fail", { ErrorType: "No", ErrorMessage: "{}" });
    assert.deepEqual((await answered.learns()).slice(0, 2), ["CallbackExternalError", "{}"]);
  },
  async lost_request_is_repeated_unchanged() {
    const sections = (["never", "after"] as const).map((when) => Object.assign(new Section(suspended), { faults: [lost(when)] }));
    await Promise.all(sections.map(async (section) => {
      assert(Number(await section.run()) > 0);
      assert.deepEqual(section.done, ["acquire", "acquire", "first", "second", "release"]);
      assert.deepEqual(section.sent[0], section.sent[1]);
      await section.isFree();
    }));
  },
  async unheard_waiter_gets_lease() {
    // The latter of the last attempt, and an earlier one was heard.
    const throttled = fails("slow down", { $metadata: { httpStatusCode: 429 } });
    await Promise.all([lost("after"), ["after", throttled] as Fault].map(async (fault) => {
      const section = new Section((section, context) => section.withLease(unrepeated(context), (lease) => section.works(context, lease)));
      section.faults = [fault];
      const held = await section.other.acquire({ key: section.key, ttlSeconds: 3600 });
      await section.start();
      await until(() => section.done.length);
      await sleep(1000);
      await held.release();
      assert(Number(await section.ends()) > held.fencingToken);
      assert.deepEqual(section.done, ["acquire", "first", "second", "release"]);
    }));
  },
  async unanswered_caller_learns_it() {
    const runner = await Runner.started(await freePort(), "--skip-time");
    const section = new Section((section, context) => section.refusal(hasty(context, 10, [])), runner);
    section.faults = Array<Fault>(99).fill(lost("never"));
    await section.start();
    const [name, , details] = await section.learns();
    assert.deepEqual([name, details], ["LeaseQueueTimeout", { key: section.key }]);
    assert.equal(section.count("acquire"), 6);
    for (const one of section.sent) assert.deepEqual(one, section.sent[0]);
    runner.stop();
  },
  async a_lost_release_is_repeated() {
    await Promise.all((["never", "after"] as const).map(async (when) => {
      const section = new Section((section, context) => section.withLease(context, async () => "done"));
      section.faults = [fine, lost(when)];
      assert.equal(await section.run(), "done");
      assert.deepEqual(section.done, ["acquire", "release", "release"]);
      await section.isFree();
    }));
  },
  async failed_release_keeps_works_result() {
    const section = new Section((section, context) => section.withLease(context, async () => "done"));
    section.faults = [fine, denied];
    assert.equal(await section.run(), "done");
    assert.deepEqual(section.done, ["acquire", "release"]);
    const failing = new Section((section, context) => section.withLease(context, () => Promise.reject(new RangeError("own"))));
    failing.faults = [fine, denied];
    assert.equal(((await failing.run()) as Details).ErrorType, "RangeError");
    assert.deepEqual(failing.done, ["acquire", "release"]);
  },
  async work_reports_lost_lease() {
    const section = new Section((section, context) => section.refusal(context, {}, () => context.step("taken", async () => {
      const event = { operation: "force_release", key: section.key, who: "night shift", why: "a test" };
      await STACK.invoke({ FunctionName: "OperateFunction", Payload: encoded(event) });
      await section.other.acquire({ key: section.key, ttlSeconds: 60 });
    })));
    await section.start();
    const [name, , details] = await section.learns();
    assert.deepEqual([name, details, section.count("release")], ["LeaseLost", { key: section.key }, 1]);
  },
  async stopped_execution_loses_lease_unreleased() {
    const section = new Section((section, context) => section.withLease(context, async () => {
      await section.step(context, "first");
      await context.wait({ seconds: 2 });
      await section.step(context, "second");
    }));
    await section.start();
    await until(() => section.count("first"));
    await sleep(500); // Until its wait has begun.
    await section.stop();
    assert.equal(((await section.ends()) as Details).status, "STOPPED");
    await section.isFree(60); // Since sweep has looked.
    assert.deepEqual(section.done, ["acquire", "first"]);
  },
  async the_local_runners_ids_become_arns() {
    const arn = "arn:aws:lambda:eu-west-1:123456789012:function:orders:7/durable-execution/one/2";
    for (const [given, found] of [[arn, arn], ["a-b/c-d", /\/durable-execution\/a-b\/c-d$/]] as const) {
      const asked: Details[] = [];
      const invoke = async ({ Payload }: { Payload: Uint8Array }): Promise<Invoked> => {
        asked.push(decoded(Payload));
        return { FunctionError: "Unhandled", Payload: encoded({ errorType: "Lease.Frozen", errorMessage: '{"message":"frozen"}' }) };
      };
      const context = {
        executionContext: { durableExecutionArn: given },
        step: <T>(_: string, work: () => Promise<T>) => work(),
        createCallback: async (): Promise<[Promise<string>, string]> => [new Promise<string>(() => {}), "id"],
      };
      const leases = new Leasehold({ invoke }, { ...NAMES, holder: "nobody" });
      const refused = leases.withLease(context, "k", () => assert.fail("it has no lease"), { waitSeconds: 1 });
      assert.equal((await refused.catch((error: unknown) => error) as Error).name, "Lease.Frozen");
      const holder = asked[0]!.holder as string;
      assert.match(holder, ARN);
      assert(typeof found === "string" ? holder === found : found.test(holder), holder);
    }
  },
};

/** The durable functions of the scenes, which the runner invokes as Lambda would. */
const FUNCTIONS = new Map<string, ReturnType<typeof withDurableExecution>>();
const endpoint = createServer(async (request, response) => {
  const name = decodeURIComponent(request.url!.split("/")[3]!).split(":")[0]!;
  const parts: Uint8Array[] = [];
  for await (const part of request) parts.push(part as Uint8Array);
  const event = JSON.parse(Buffer.concat(parts).toString());
  const context = { awsRequestId: randomUUID(), getRemainingTimeInMillis: () => 60_000 };
  try {
    const answer = await FUNCTIONS.get(name)!(event, context as never);
    response.end(JSON.stringify(answer));
  } catch (error) {
    const { name: errorType, message: errorMessage } = error as Error;
    response.writeHead(200, { "x-amz-function-error": "Unhandled" }).end(JSON.stringify({ errorType, errorMessage }));
  }
}).listen(0, "127.0.0.1");
await once(endpoint, "listening");
const ENDPOINT = `http://127.0.0.1:${(endpoint.address() as AddressInfo).port}`;
const RUNNER = await Runner.started(process.argv[2]!);
const STACK = new Stack(env.AWS_ENDPOINT_URL_LAMBDA!);

// Six side by side, because most of them wait. The runner resets connections when there are too many at once.
const played: Promise<void>[] = [];
for (const [at, scene] of Object.values(scenes).entries()) played.push((played[at - 6] ?? Promise.resolve()).then(scene));
for (const [at, name] of Object.keys(scenes).entries()) {
  await played[at];
  console.log("ok", name);
}
process.exit();
