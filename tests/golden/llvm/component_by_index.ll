declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare float @llvm.fma.f32(float, float, float)
define void @jaxwarp_component_by_index(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 8
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0.0 = mul i64 4, %g0
  %b0.1 = mul i64 %b0.0, 4
  %b0 = add i64 0, %b0.1
  %b1.0 = mul i64 4, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 8, %g2
  %b2.1 = mul i64 %b2.0, 4
  %b2 = add i64 %b1, %b2.1
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v80, %stored75 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = mul i64 %v3, 4
  %v6 = getelementptr float, ptr %p0, i64 %v5
  %v7 = load <4 x float>, ptr %v6, align 4
  %v8 = getelementptr float, ptr %v6, i64 16
  %v9 = load <4 x float>, ptr %v8, align 4
  %v10 = shufflevector <4 x float> %v7, <4 x float> %v9, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v11 = getelementptr float, ptr %v6, i64 4
  %v12 = load <4 x float>, ptr %v11, align 4
  %v13 = getelementptr float, ptr %v6, i64 20
  %v14 = load <4 x float>, ptr %v13, align 4
  %v15 = shufflevector <4 x float> %v12, <4 x float> %v14, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v16 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v17 = getelementptr float, ptr %v6, i64 8
  %v18 = load <4 x float>, ptr %v17, align 4
  %v19 = getelementptr float, ptr %v6, i64 24
  %v20 = load <4 x float>, ptr %v19, align 4
  %v21 = shufflevector <4 x float> %v18, <4 x float> %v20, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v22 = getelementptr float, ptr %v6, i64 12
  %v23 = load <4 x float>, ptr %v22, align 4
  %v24 = getelementptr float, ptr %v6, i64 28
  %v25 = load <4 x float>, ptr %v24, align 4
  %v26 = shufflevector <4 x float> %v23, <4 x float> %v25, <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v27 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 0, i32 1, i32 8, i32 9, i32 4, i32 5, i32 12, i32 13>
  %v28 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v29 = shufflevector <8 x float> %v16, <8 x float> %v27, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v30 = shufflevector <8 x float> %v10, <8 x float> %v15, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v31 = shufflevector <8 x float> %v21, <8 x float> %v26, <8 x i32> <i32 2, i32 3, i32 10, i32 11, i32 6, i32 7, i32 14, i32 15>
  %v32 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v33 = shufflevector <8 x float> %v30, <8 x float> %v31, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v34 = getelementptr i32, ptr %p1, i64 %v3
  %v35 = load <8 x i32>, ptr %v34, align 4
  %v36 = icmp eq <8 x i32> %v35, splat (i32 2)
  %v37 = select <8 x i1> %v36, <8 x float> %v32, <8 x float> %v33
  %v38 = icmp eq <8 x i32> %v35, splat (i32 1)
  %v39 = select <8 x i1> %v38, <8 x float> %v29, <8 x float> %v37
  %v40 = icmp eq <8 x i32> %v35, splat (i32 0)
  %v41 = select <8 x i1> %v40, <8 x float> %v28, <8 x float> %v39
  %v42 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v41, <8 x float> splat (float 0x4000000000000000), <8 x float> %v28)
  %v43 = select <8 x i1> %v40, <8 x float> %v42, <8 x float> %v28
  %v44 = select <8 x i1> %v38, <8 x float> %v42, <8 x float> %v29
  %v45 = select <8 x i1> %v36, <8 x float> %v42, <8 x float> %v32
  %v46 = icmp eq <8 x i32> %v35, splat (i32 3)
  %v47 = select <8 x i1> %v46, <8 x float> %v42, <8 x float> %v33
  %v48 = fadd <8 x float> %v47, splat (float 0x3FF0000000000000)
  %v49 = getelementptr float, ptr %p2, i64 %v5
  %v50 = shufflevector <8 x float> %v43, <8 x float> %v44, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v51 = shufflevector <8 x float> %v45, <8 x float> %v48, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v52 = shufflevector <8 x float> %v43, <8 x float> %v44, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v53 = shufflevector <8 x float> %v45, <8 x float> %v48, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v54 = shufflevector <8 x float> %v50, <8 x float> %v51, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v55 = shufflevector <8 x float> %v52, <8 x float> %v53, <8 x i32> <i32 0, i32 2, i32 8, i32 10, i32 4, i32 6, i32 12, i32 14>
  %v56 = shufflevector <8 x float> %v50, <8 x float> %v51, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v57 = shufflevector <8 x float> %v52, <8 x float> %v53, <8 x i32> <i32 1, i32 3, i32 9, i32 11, i32 5, i32 7, i32 13, i32 15>
  %v58 = shufflevector <8 x float> %v54, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v59 = getelementptr float, ptr %v49, i64 4
  %v60 = shufflevector <8 x float> %v55, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v61 = getelementptr float, ptr %v49, i64 8
  %v62 = shufflevector <8 x float> %v56, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v63 = getelementptr float, ptr %v49, i64 12
  %v64 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %v65 = getelementptr float, ptr %v49, i64 16
  %v66 = shufflevector <8 x float> %v54, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v67 = getelementptr float, ptr %v49, i64 20
  %v68 = shufflevector <8 x float> %v55, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v69 = getelementptr float, ptr %v49, i64 24
  %v70 = shufflevector <8 x float> %v56, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v71 = getelementptr float, ptr %v49, i64 28
  %v72 = shufflevector <8 x float> %v57, <8 x float> poison, <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %v76 = ptrtoint ptr %v49 to i64
  %v77 = and i64 %v76, %lines
  %v78 = icmp eq i64 %v77, 0
  br i1 %v78, label %stream73, label %cache74
stream73:
  store <4 x float> %v58, ptr %v49, align 16, !nontemporal !4
  store <4 x float> %v60, ptr %v59, align 16, !nontemporal !4
  store <4 x float> %v62, ptr %v61, align 16, !nontemporal !4
  store <4 x float> %v64, ptr %v63, align 16, !nontemporal !4
  store <4 x float> %v66, ptr %v65, align 16, !nontemporal !4
  store <4 x float> %v68, ptr %v67, align 16, !nontemporal !4
  store <4 x float> %v70, ptr %v69, align 16, !nontemporal !4
  store <4 x float> %v72, ptr %v71, align 16, !nontemporal !4
  br label %stored75
cache74:
  store <4 x float> %v58, ptr %v49, align 4
  store <4 x float> %v60, ptr %v59, align 4
  store <4 x float> %v62, ptr %v61, align 4
  store <4 x float> %v64, ptr %v63, align 4
  store <4 x float> %v66, ptr %v65, align 4
  store <4 x float> %v68, ptr %v67, align 4
  store <4 x float> %v70, ptr %v69, align 4
  store <4 x float> %v72, ptr %v71, align 4
  br label %stored75
stored75:
  %v79 = add i64 %v3, 8
  %v80 = call i64 asm "", "=r,0"(i64 %v79)
  %v81 = icmp sle i64 %v80, %last_chunk
  br i1 %v81, label %chunk, label %rest, !llvm.loop !1
rest:
  %v82 = phi i64 [ %col_begin, %row ], [ %v80, %stored75 ]
  %v83 = icmp slt i64 %v82, %col_end
  br i1 %v83, label %partial, label %past
partial:
  br label %part
part:
  %v84 = phi i64 [ %v82, %partial ], [ %v114, %part ]
  %v85 = trunc nuw nsw i64 %v84 to i32
  %v86 = mul i64 %v84, 4
  %v87 = getelementptr float, ptr %p0, i64 %v86
  %v88 = load float, ptr %v87, align 4
  %v89 = getelementptr float, ptr %v87, i64 1
  %v90 = load float, ptr %v89, align 4
  %v91 = getelementptr float, ptr %v87, i64 2
  %v92 = load float, ptr %v91, align 4
  %v93 = getelementptr float, ptr %v87, i64 3
  %v94 = load float, ptr %v93, align 4
  %v95 = getelementptr i32, ptr %p1, i64 %v84
  %v96 = load i32, ptr %v95, align 4
  %v97 = icmp eq i32 %v96, 2
  %v98 = select i1 %v97, float %v92, float %v94
  %v99 = icmp eq i32 %v96, 1
  %v100 = select i1 %v99, float %v90, float %v98
  %v101 = icmp eq i32 %v96, 0
  %v102 = select i1 %v101, float %v88, float %v100
  %v103 = call float @llvm.fma.f32(float %v102, float 0x4000000000000000, float %v88)
  %v104 = select i1 %v101, float %v103, float %v88
  %v105 = select i1 %v99, float %v103, float %v90
  %v106 = select i1 %v97, float %v103, float %v92
  %v107 = icmp eq i32 %v96, 3
  %v108 = select i1 %v107, float %v103, float %v94
  %v109 = fadd float %v108, 0x3FF0000000000000
  %v110 = getelementptr float, ptr %p2, i64 %v86
  store float %v104, ptr %v110, align 4
  %v111 = getelementptr float, ptr %v110, i64 1
  store float %v105, ptr %v111, align 4
  %v112 = getelementptr float, ptr %v110, i64 2
  store float %v106, ptr %v112, align 4
  %v113 = getelementptr float, ptr %v110, i64 3
  store float %v109, ptr %v113, align 4
  %v114 = add i64 %v84, 1
  %v115 = icmp slt i64 %v114, %col_end
  br i1 %v115, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
