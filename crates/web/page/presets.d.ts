declare module "virtual:presets" {
    /** Scenarios of the repository. */
    const presets: { family: string; title: string; text: string }[];
    export default presets;
}
