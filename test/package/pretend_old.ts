/** `node --import` of this: what runs after it takes this Node for an old one. */
const PROGRAM = "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '18.20.8' } })"
export const PRETEND_OLD = `data:text/javascript,${encodeURIComponent(PROGRAM)}`
