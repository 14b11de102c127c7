/**
 * Histories of each part of a campaign, so that all together make at least `calls` calls: as many as `most`, the last what is left.
 * @param round calls that one history more makes, in all markets.
 */
export function partsOf(calls: number, round: number, most: number): readonly number[] {
  const histories = Math.ceil(calls / round);
  const parts = Math.ceil(histories / most);
  return Array.from({ length: parts }, (_, part) => Math.min(most, histories - part * most));
}
