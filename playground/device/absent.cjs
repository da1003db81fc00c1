// Modules of Node, in a page: they may be imported, and classes made of theirs; all else that they offer is undefined.
class Absent {}
Absent.EventEmitter = Absent
Absent.inherits = () => {}
module.exports = Absent
