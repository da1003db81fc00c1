import { readTimes } from './data.ts'
import { rowsOf } from './models.ts'
const data = readTimes(process.argv[2]!)
const { rows } = await rowsOf(data, ['sm90'])
const names: any[] = []
for (const p of data.problems) for (const t of data.times.filter((x) => x.problem === p.name)) names.push(t)
rows.map((r, i) => ({ r: r.modelled() / r.measured, m: r.measured, d: names[i].design, p: r.problem, a: names[i].alignment })).sort((a, b) => a.p < b.p ? -1 : a.p > b.p ? 1 : a.r - b.r).forEach(({ r, m, d, p, a }) => console.log(r.toFixed(2), m, p, d.consumers, d.tile.join('x'), d.cluster.join('x'), 'parts' + d.parts, d.operands, Object.values(a).join(',')))
