/* SPDX-License-Identifier: Apache-2.0
 * What Counts.java calls. An exception that Java has already thrown stays. */
#include <dpfast.h>
#include <jni.h>

JNIEXPORT void JNICALL Java_Counts_noise(JNIEnv *env, jclass self, jstring scale, jlongArray counts, jlong lower,
                                         jlong upper) {
    jlong *const at = counts ? (*env)->GetLongArrayElements(env, counts, NULL) : NULL;
    const char *const text = at ? (*env)->GetStringUTFChars(env, scale, NULL) : NULL;
    int status = DPFAST_POINTER;
    (void)self;
    if (text != NULL) {
        dpfast_noise *noise = NULL;
        status = dpfast_discrete_laplace(text, &noise);
        if (status == DPFAST_OK)
            status = dpfast_add_int64(noise, (*env)->GetArrayLength(env, counts), (int64_t *)at, (int64_t *)at, lower,
                                      upper);
        dpfast_free(noise);
        (*env)->ReleaseStringUTFChars(env, scale, text);
    }
    if (at != NULL)
        (*env)->ReleaseLongArrayElements(env, counts, at, 0);
    if (status != DPFAST_OK && !(*env)->ExceptionCheck(env))
        (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalStateException"), dpfast_message(status));
}
