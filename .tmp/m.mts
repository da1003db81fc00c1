import { getKernels, countKernels } from '../runtime/index.ts'
const rss=()=>Math.round(process.memoryUsage().rss/2**20)
let t=performance.now()
const lap=(what:string)=>{const n=performance.now();console.log(what,(n-t).toFixed(0),'ms',rss(),'MiB');t=n}
lap('import')
console.log(countKernels({cc:100}).instances); lap('count')
if (process.argv[2]==='meta'){ let n=0; const l=getKernels(undefined,{cc:100,metadataFilter:(m:any)=>{n++;return m.design.kind==='sm100'&&m.design.tileShape[0]===256}}); lap('filter'); console.log(n,l.length) 
console.log(l[0]!.metadata.kernelName, l.at(-1)!.metadata.kernelName); lap('ends')}
else { const l=getKernels(undefined,{cc:100,where:{design:{kind:'sm100',tileShape:[256,null,null]}} as any}); lap('where'); console.log(l.length)
console.log(l[0]!.metadata.kernelName, l.at(-1)!.metadata.kernelName); lap('ends')}
