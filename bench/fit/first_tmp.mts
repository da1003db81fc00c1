import { readTimes } from './data.ts'
import { rowsOf } from './models.ts'
for (const f of process.argv.slice(2)) {
  const data = readTimes(f)
  const { rows } = await rowsOf(data, ['sm90', 'sm80', 'simt'])
  const ts: any[] = []
  for (const p of data.problems) for (const t of data.times.filter((x) => x.problem === p.name)) ts.push(t)
  if (ts.length !== rows.length) console.log('mismatch', ts.length, rows.length)
  const by = new Map<string, any[]>()
  rows.forEach((r, i) => by.set(r.problem, [...(by.get(r.problem) ?? []), { m: r.measured, e: r.modelled(), d: ts[i].design, a: ts[i].alignment }]))
  const out: any[] = []
  const show = (x: any) => `${x.d.kind} ${x.d.consumers ?? ''} ${(x.d.tile ?? []).join('x')} ${(x.d.cluster ?? []).join('x')} ${x.d.parts ?? ''} ${x.d.operands ?? ''} ${JSON.stringify(x.d).length < 0 ? '' : Object.values(x.a).join(',')} est ${x.e.toFixed(1)} us ${x.m}`
  for (const [p, l] of by) { const first = [...l].sort((a, b) => a.e - b.e)[0], best = [...l].sort((a, b) => a.m - b.m)[0]; out.push([first.m / best.m, p, first, best]) }
  out.sort((a, b) => b[0] - a[0])
  console.log(f, out.length, 'mean', Math.exp(out.reduce((s, o) => s + Math.log(o[0]), 0) / out.length))
  for (const [r, p, x, y] of out.slice(0, 14)) console.log(r.toFixed(2), p, '\n     first', show(x), '\n     best ', show(y))
}
