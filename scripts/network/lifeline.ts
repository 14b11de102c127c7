import { isMainThread } from "node:worker_threads";

/**
 * Loaded first into every process of the local network (`node --import`). They are in process groups of their own, so that a Ctrl-C
 * reaches only the process that knows in which order to stop them; the pipe to it ends when it ends, however that happens, and none
 * of them outlives it. Threads of a process load it too, but have no standard input of their own; so do processes that it forks with
 * its flags, whose standard input is whatever they were given: the variable that marks a child is taken off, and they are left alone.
 */
if (isMainThread && process.env.LIFELINE_ON_STDIN === "1") {
  delete process.env.LIFELINE_ON_STDIN;
  const { stdin } = process;
  stdin.on("close", () => process.kill(process.pid, "SIGKILL"));
  stdin.on("error", () => stdin.destroy());
  stdin.resume();
  stdin.unref();
}
