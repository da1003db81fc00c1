-- The ktl language server for Neovim 0.7 and later: require it, or copy it to after/plugin/ktl.lua.
local M = {}

M.command = { 'npx', 'ktl', 'lsp', '--stdio' }

local function start(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  local root = vim.fn.fnamemodify(name, ':p:h')
  if vim.lsp.start then
    vim.lsp.start({ name = 'ktl', cmd = M.command, root_dir = root }, { bufnr = buffer })
    return
  end
  M.client = M.client or vim.lsp.start_client({ name = 'ktl', cmd = M.command, root_dir = root })
  vim.lsp.buf_attach_client(buffer, M.client)
end

vim.api.nvim_create_autocmd({ 'BufRead', 'BufNewFile' }, {
  pattern = '*.ktl',
  callback = function(event)
    vim.bo[event.buf].filetype = 'ktl'
    vim.bo[event.buf].commentstring = '// %s'
    start(event.buf)
  end,
})

return M
