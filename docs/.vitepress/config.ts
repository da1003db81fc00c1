/**
 * The documentation as a site: `npm run docs`. Pages are the Markdown files of the repository where they lie, so that links work in both;
 * links to other files go to copies of their texts.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { defineConfig } from 'vitepress'
import { textMateGrammar } from '../../grammar/textmate.ts'

const ROOT = path.join(import.meta.dirname, '../..')
const { version, description } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
/** Files that pages link to and that are no pages. */
const copied = new Set<string>()

const reference = (text: string, name: string) => ({ text, link: `/docs/reference/${name}` })
const page = (text: string, name: string) => ({ text, link: `/docs/${name}` })

export default defineConfig({
  title: 'ktl',
  description,
  srcDir: '..',
  srcExclude: ['**/node_modules/**', 'dist/**', 'native/**', 'docs/.vitepress/**'],
  rewrites: (file) => file.replace(/README\.md$/, 'index.md'),
  cleanUrls: false,
  lastUpdated: false,
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    nav: [
      { text: 'Language', link: '/docs/language' },
      { text: 'API', link: '/docs/api' },
      { text: 'Diagnostics', link: '/docs/reference/diagnostics' },
      { text: version, link: '/CHANGELOG' },
    ],
    sidebar: [
      { text: 'Start', items: [{ text: 'What ktl is', link: '/' }, page('Gallery', 'gallery'), { text: 'Tutorials', link: '/docs/tutorials', collapsed: true, items: tutorials() }, { text: 'In applications', link: '/samples/apps/' }] },
      { text: 'Language', items: [page('The language', 'language'), reference('Functions and dtypes', 'functions'), page('Schedules', 'schedules'), reference('Kernel classes and targets', 'kernel-classes')] },
      { text: 'Use', items: [page('From TypeScript', 'api'), reference('Command line', 'command-line'), page('Installing', 'install'), page('Editors', 'editors'), page('Playground', 'playground'), page('Deployment', 'deployment'), page('The virtual device', 'virtual-device'), reference('Diagnostics', 'diagnostics')] },
      { text: 'When something is wrong', items: [page('A wrong kernel', 'debugging-a-wrong-kernel'), page('A slow kernel', 'debugging-a-slow-kernel'), page('Timelines', 'timelines'), page('Numerics and bounds', 'numerics'), page('Performance', 'performance'), reference('Measurements', 'measurements')] },
      { text: 'Join', items: [page('Architecture', 'architecture'), { text: 'Contributing', link: '/CONTRIBUTING' }, { text: 'Benchmarks', link: '/bench/' }, { text: 'Changes', link: '/CHANGELOG' }] },
    ],
  },
  markdown: {
    languages: [textMateGrammar],
    // As on GitHub.
    anchor: { slugify: (text) => text.toLowerCase().replaceAll(/[^\p{L}\p{N}\s_-]/gu, '').trim().replaceAll(/\s/g, '-') },
    config(md) {
      md.core.ruler.push('files', ({ tokens, env }) => {
        for (const token of tokens.flatMap(({ children }) => children ?? [])) {
          const link = token.type === 'link_open' ? token.attrGet('href')! : ''
          if (link === '' || /^(https?:|#)/.test(link) || /\.(md|svg)(#.*)?$/.test(link)) continue
          copied.add(path.join(path.dirname(env.relativePath), link))
          token.attrSet('href', `${link}.txt`)
          token.attrSet('target', '_blank')
        }
      })
    },
  },
  buildEnd({ outDir }) {
    for (const file of [...copied, ...pictures()]) {
      const target = path.join(outDir, file.endsWith('.svg') ? file : `${file}.txt`)
      mkdirSync(path.dirname(target), { recursive: true })
      copyFileSync(path.join(ROOT, file), target)
    }
  },
}) // prettier-ignore

/** Of each folder of samples/tutorials: its heading. */
function tutorials() {
  return readdirSync(path.join(ROOT, 'samples/tutorials')).map((name) => {
    const [heading] = readFileSync(path.join(ROOT, `samples/tutorials/${name}/README.md`), 'utf8').split('\n')
    return { text: heading!.replace(/^# /, ''), link: `/samples/tutorials/${name}/` }
  })
}

const pictures = (): string[] => readdirSync(path.join(ROOT, 'docs/pictures')).map((name) => `docs/pictures/${name}`)
