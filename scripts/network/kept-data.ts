import { mkdir, readdir, rename } from "node:fs/promises";
import { join } from "node:path";
import { type Deployment, DeploymentFileError, readDeployment } from "../../chain/deployment.ts";
import { openChain } from "../../chain/rpc.ts";
import { systemClock } from "../../chain/system-clock.ts";
import { verifyChain, WrongChainError } from "../../chain/verify.ts";
import { openSqliteJournal } from "../../store/sqlite-journal.ts";

const journalName = /^(?:gateway|provider)\.sqlite/;

/**
 * The contracts that an earlier run has deployed, if the chain still has them; undefined when there are none.
 *
 * @throws ChainUnavailableError when the chain cannot be asked.
 */
export async function keptDeployment(rpcUrl: string, file: string): Promise<Deployment | undefined> {
  const chain = openChain({ url: rpcUrl, clock: systemClock, random: Math.random });
  try {
    return await verifyChain(chain.client, await readDeployment(file));
  } catch (error) {
    if (error instanceof DeploymentFileError || error instanceof WrongChainError) return undefined;
    throw error;
  } finally {
    await chain.close();
  }
}

/**
 * Moves the journals of an earlier run, whose chain or contracts are no longer used, into a folder beside them: a journal is bound to
 * its contracts, and refuses others.
 *
 * @param folders Data folders of gateways and providers.
 * @returns Where they are now.
 * @throws JournalLockedError when a process of that run still works with one of them.
 */
export async function setAsideJournals(folders: readonly string[]): Promise<readonly string[]> {
  const found: { readonly folder: string; readonly names: readonly string[]; readonly all: readonly string[] }[] = [];
  for (const folder of folders) {
    const all = await readdir(folder).catch(() => []);
    const names = all.filter((name) => journalName.test(name));
    const journal = names.find((name) => name.endsWith(".sqlite"));
    if (journal === undefined) continue;
    await (await openSqliteJournal(join(folder, journal))).close();
    found.push({ folder, names, all });
  }
  const places: string[] = [];
  for (const { folder, names, all } of found) {
    const place = join(folder, freeName(all));
    await mkdir(place);
    // Opened and closed, the journal is one file; what else is listed may be gone.
    for (const name of names) await rename(join(folder, name), join(place, name)).catch(ifMissing);
    places.push(place);
  }
  return places;
}

function freeName(taken: readonly string[]): string {
  for (let number = 1; ; number += 1) if (!taken.includes(`earlier-${number}`)) return `earlier-${number}`;
}

function ifMissing(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
}
