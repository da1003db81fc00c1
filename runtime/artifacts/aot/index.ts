export { buildArtifacts, type BuildArtifactsOptions } from './build.ts'
export type { Manifest, ManifestEntry } from './manifest.ts'
export { registerArtifacts, type ArtifactRegistration } from './register.ts'
export { ArtifactFolder, precompiled } from './registry.ts'
