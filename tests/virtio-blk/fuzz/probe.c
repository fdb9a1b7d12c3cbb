/* Whether this clang has libFuzzer and the sanitizers it is used with: compiled, not run, when the build is set up. */
int LLVMFuzzerTestOneInput(const unsigned char *bytes, unsigned long size_bytes);

int LLVMFuzzerTestOneInput(const unsigned char *bytes, unsigned long size_bytes)
{
    return 0;
}
