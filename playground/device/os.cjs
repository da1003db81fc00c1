// What a module of WebAssembly may have here, which is what it may use.
exports.totalmem = () => 2 ** 31
exports.availableParallelism = () => 1
