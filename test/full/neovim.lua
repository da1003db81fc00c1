-- What a user of Neovim sees, as JSON on standard output: run by editors.ts with editors/neovim/ktl.lua in the configuration.
-- $KTL_FILE is a kernel that multiplies by `rellu(A)` in its second line.
local seen = {}

local function wait(what, condition)
  if not vim.wait(20000, condition, 50) then error('no ' .. what) end
end

local function ask(method, line, column)
  vim.api.nvim_win_set_cursor(0, { line, column })
  local answers = vim.lsp.buf_request_sync(0, method, vim.lsp.util.make_position_params(), 10000) or {}
  for _, answer in pairs(answers) do return answer.result end
end

local function text() return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, true), '\n') end

local function look()
  vim.cmd('edit ' .. vim.fn.fnameescape(vim.env.KTL_FILE))
  seen.filetype, seen.commentstring = vim.bo.filetype, vim.bo.commentstring
  wait('diagnostics', function() return #vim.diagnostic.get(0) > 0 end)
  seen.diagnostics = vim.tbl_map(function(one)
    return { code = one.code, line = one.lnum, column = one.col, message = one.message }
  end, vim.diagnostic.get(0))

  local wrong = vim.fn.getline(2)
  local at = wrong:find('rellu', 1, true) - 1
  vim.api.nvim_buf_set_text(0, 1, at, 1, at + 5, { 'relu' })
  wait('text without mistakes', function() return #vim.diagnostic.get(0) == 0 end)
  seen.hover = ask('textDocument/hover', 2, at).contents.value
  seen.definition = ask('textDocument/definition', 2, at + 5)

  vim.api.nvim_buf_set_text(0, 1, at + 4, 1, at + 7, { '' })
  local completion = ask('textDocument/completion', 2, at + 3)
  seen.completion = vim.tbl_map(function(item) return item.label end, completion.items or completion)
  vim.api.nvim_buf_set_text(0, 1, at + 4, 1, at + 4, { '(A)' })

  vim.lsp.buf.formatting_sync({}, 10000)
  seen.formatted = text()
end

local ok, problem = pcall(look)
if not ok then seen.problem = problem end
io.stdout:write(vim.json.encode(seen))
vim.cmd('qall!')
