/**
 * Weighted rendezvous: `u` is uniform in (0, 1) by hash, `score = w / -ln(u)`, greatest first. The owner of a key is i with probability
 * `w_i / sum w`, and a changed weight moves only keys to or from that one member.
 */
export function rendezvousScore(weight: number, unit: number): number {
  return weight / -Math.log(unit);
}
